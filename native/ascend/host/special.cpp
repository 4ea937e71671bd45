#include "native/ascend/host/special.h"

#include <cstdio>

namespace hajax::ascend::host {
namespace {

// FNV-1a: against mistakes, not against intent, as the path names code that will run anyway.
class Digest {
 public:
  void add(const void* data, size_t count) {
    const auto* bytes = static_cast<const uint8_t*>(data);
    for (size_t i = 0; i < count; ++i) value_ = (value_ ^ bytes[i]) * 0x100000001b3;
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325;
};

Failure wrong_binary(const char* path, const std::string& expected, const char* got) {
  return wrong(kStatus_bad_call, "library", path, expected, got == nullptr ? "none" : got);
}

}  // namespace

std::string special_name(const PlanView& view) {
  Digest digest;
  digest.add(view.plan.header.abi_digest, sizeof view.plan.header.abi_digest);
  digest.add(&view.plan.npu_arch, sizeof view.plan.npu_arch);
  for (hj_npu_program program : view.programs) {
    const uint8_t* steps = view.bytes + program.step_offset;
    const auto count = static_cast<size_t>(program.setup + program.body + program.finish);
    program.step_offset = program.step_address = 0;  // where they lie makes no difference
    digest.add(&program, sizeof program);
    digest.add(steps, count * sizeof(hj_step));
  }
  char name[64];
  snprintf(name, sizeof name, "hajax_delta_rule_%016llx", static_cast<unsigned long long>(digest.value()));
  return name;
}

Failure open_special(const PlanView& view, const char* path, Kernel* kernel) {
  aclrtBinHandle binary = nullptr;
  if (aclrtBinaryLoadFromFile(path, nullptr, &binary) != ACL_SUCCESS) {
    return wrong_binary(path, "a binary that can be loaded", aclGetRecentErrMsg());
  }
  const std::string name = special_name(view);
  if (aclrtBinaryGetFunction(binary, name.c_str(), &kernel->function) != ACL_SUCCESS) {
    aclrtBinaryUnLoad(binary);
    return wrong_binary(path, name + ", the kernel of this plan's programs", "a binary without it");
  }
  return {};
}

}  // namespace hajax::ascend::host
