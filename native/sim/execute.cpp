#include "native/sim/execute.h"

#include <string.h>

#include <string>

#include "acl/acl.h"
#include "native/ascend/host/execute.h"
#include "native/ascend/host/plan_view.h"
#include "native/ascend/host/special.h"
#include "native/emulator/acl/runtime.h"
#include "native/emulator/timing/targets.h"

namespace hajax::sim {
namespace {

namespace host = ascend::host;
using host::Failure;

// The chip that the plan's header names, if the bytes are so many.
Failure named_chip(const void* plan, int64_t plan_bytes, const hj_target** chip) {
  if (plan == nullptr || plan_bytes < static_cast<int64_t>(sizeof(hj_npu_plan))) {
    return host::bad_plan("size", "at least " + std::to_string(sizeof(hj_npu_plan)) + " bytes", plan_bytes);
  }
  hj_npu_plan header;
  memcpy(&header, plan, sizeof header);
  const std::string name(header.target, strnlen(header.target, HJ_TARGET_NAME));
  *chip = emulator::built_in_target(name.c_str());
  if (*chip != nullptr) return {};
  std::string known;
  for (const char* one : emulator::target_names()) known += (known.empty() ? "" : ", ") + std::string(one);
  return wrong(host::kStatus_unsupported, "plan", "target", "one of " + known, "\"" + name + "\"");
}

Failure acl_failure(const char* what) {
  const char* text = aclGetRecentErrMsg();
  return {host::kStatus_internal, std::string(what) + " failed" + (text == nullptr ? "" : std::string(": ") + text)};
}

void fill_counters(const host::PlanView& view, const host::Done& done, const Results& results, int64_t* counters) {
  memset(counters, 0, sizeof(int64_t) * HJ_COUNTERS);
  counters[host::kCounter_chunk] = view.plan.chunk;
  counters[host::kCounter_tasks] = done.items;
  counters[host::kCounter_workers] = done.cores;
  counters[host::kCounter_chunks] = done.chunks;
  counters[host::kCounter_launches] = done.launches;
  double cycles = 0;
  for (const auto& result : results) {
    for (const emulator::CoreCounts& core : result->run->result.counts) {
      const auto bytes = [&core](emulator::Path path) {
        return static_cast<int64_t>(core.path_bytes[static_cast<int>(path)]);
      };
      counters[host::kCounter_macs] += static_cast<int64_t>(core.counts[static_cast<int>(emulator::Count::macs)]);
      counters[host::kCounter_gm_bytes] +=
          bytes(emulator::Path::gm_to_l1) + bytes(emulator::Path::gm_to_ub) + bytes(emulator::Path::ub_to_gm);
    }
    cycles += result->run->timing[emulator::TimingValue::cycles];
  }
  counters[host::kCounter_cycles] = static_cast<int64_t>(cycles);
}

}  // namespace

Failure execute(const char* library, const hj_target* chip, const void* plan, int64_t plan_bytes,
                const hj_delta_call& call, const emulator::RunOptions& options, int64_t* counters, Results* results) {
  if (chip == nullptr) {
    if (Failure f = named_chip(plan, plan_bytes, &chip); f.failed()) return f;
  }
  host::PlanView view;
  if (Failure f = host::read_plan(plan, plan_bytes, host::chip_of(*chip), &view); f.failed()) return f;
  emulator::RunOptions how = options;
  how.warm_l2 = true;  // between the launches of this call; the first one finds it empty
  emulator::acl::Session session(*chip, how);
  if (aclInit(nullptr) != ACL_SUCCESS || aclrtSetDevice(0) != ACL_SUCCESS) return acl_failure("aclrtSetDevice");
  host::Kernel kernel;
  if (library != nullptr) {
    if (Failure f = host::open_special(view, library, &kernel); f.failed()) return f;
  }
  host::Done done;
  const Failure failure = host::execute(view, call, kernel, &done);
  for (auto& run : session.runs()) {
    auto result = std::make_unique<hj_sim_result>();
    result->target = *chip;
    result->run = std::move(run);
    results->push_back(std::move(result));
  }
  const bool faulted = !results->empty() && results->back()->run->result.fault;
  if (failure.failed() && !faulted) {
    results->clear();
    return failure;
  }
  if (counters != nullptr) fill_counters(view, done, *results, counters);
  return {};
}

}  // namespace hajax::sim
