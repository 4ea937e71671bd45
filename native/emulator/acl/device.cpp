#include "native/emulator/acl/device.h"

#include <string.h>

#include <stdexcept>
#include <utility>

#include "native/emulator/acl/kernel.h"

namespace hajax::emulator {
namespace {

constexpr int64_t kGranule = 32;     // aclrtMalloc's: whole blocks can be copied up to the end
constexpr int kNeverWritten = 0xff;  // a NaN in every floating-point type

}  // namespace

Device::Device(const hj_target& target) : target_(target), gm_(target.gm_bytes) {}

void* Device::allocate(int64_t bytes) {
  if (bytes <= 0 || bytes > target_.gm_bytes) return nullptr;
  bytes = (bytes + kGranule - 1) / kGranule * kGranule;
  void* pointer = gm_.allocate(bytes);
  if (pointer != nullptr) memset(pointer, kNeverWritten, static_cast<size_t>(bytes));
  return pointer;
}

bool Device::holds(const void* pointer, int64_t bytes, std::string* why) const {
  if (!gm_.owns(pointer)) {
    *why = "not device memory";
    return false;
  }
  const int64_t offset = gm_.offset(pointer);
  const Gm::Block block = gm_.find(offset);
  if (block.bytes < 0) {
    *why = gm_.remark(offset);
    return false;
  }
  const int64_t room = block.start + block.bytes - offset;
  if (bytes > room) {
    *why = std::to_string(room) + " bytes to the end of its allocation";
    return false;
  }
  return true;
}

void Device::write(void* to, const void* from, int64_t bytes) {
  memcpy(to, from, static_cast<size_t>(bytes));
  gm_.mark_written(gm_.offset(to), bytes);
}

void Device::fill(void* to, int value, int64_t bytes) {
  memset(to, value, static_cast<size_t>(bytes));
  gm_.mark_written(gm_.offset(to), bytes);
}

template <typename Found>
void Device::unwritten_runs(int64_t offset, int64_t bytes, Found&& found) const {
  const int64_t end = offset + bytes;
  for (int64_t at = offset; at < end;) {
    const int64_t from = gm_.first_unwritten(at, end - at);
    if (from < 0) return;
    const int64_t to = gm_.first_written(from, end - from);
    at = to < 0 ? end : to;
    found(from, at);
  }
}

// What a kernel writes through raw pointers is there too, though nothing has marked it.
void Device::read(void* to, const void* from, int64_t bytes) const { memcpy(to, from, static_cast<size_t>(bytes)); }

void Device::copy(void* to, const void* from, int64_t bytes) {
  memmove(to, from, static_cast<size_t>(bytes));
  const int64_t offset = gm_.offset(from);
  int64_t written = offset;
  unwritten_runs(offset, bytes, [&](int64_t start, int64_t end) {
    gm_.mark_written(gm_.offset(to) + (written - offset), start - written);
    written = end;
  });
  gm_.mark_written(gm_.offset(to) + (written - offset), offset + bytes - written);
}

int64_t Device::unwritten(const void* from, int64_t bytes) const {
  int64_t count = 0;
  unwritten_runs(gm_.offset(from), bytes, [&count](int64_t start, int64_t end) { count += end - start; });
  return count;
}

void Device::check_launch(uint64_t function, int64_t blocks, size_t words) const {
  if (function == 0) throw std::invalid_argument("function: expected a kernel's address, got null");
  if (blocks < 1 || blocks > target_.ai_cores) {
    throw std::invalid_argument("blocks: expected 1 to " + std::to_string(target_.ai_cores) +
                                ", the chip's AI cores, got " + std::to_string(blocks));
  }
  if (words > HJ_ARGUMENTS) {
    throw std::invalid_argument("arguments: expected at most " + std::to_string(HJ_ARGUMENTS) +
                                " of 8 bytes each, got " + std::to_string(words));
  }
}

std::unique_ptr<Run> Device::run(uint64_t function, const std::string& kernel, int blocks, std::vector<uint64_t> words,
                                 const RunOptions& options) {
  check_launch(function, blocks, words.size());
  const std::lock_guard guard(running_);
  const CrashGuard crashes;
  auto run = std::make_unique<Run>();
  run->kernel = kernel;
  run->result = launch(target_, gm_, kernel, blocks, options.core, kernel_body(function, std::move(words)));
  if (run->result.fault) {
    run->check = name_of(run->result.fault->check);
    run->fault = describe(*run->result.fault);
    return run;
  }
  if (!options.warm_l2 || !l2_) l2_.emplace(target_);
  if (options.timeline) run->l2_before.emplace(*l2_);
  run->timing = measure(target_, run->result, *l2_);
  if (!options.timeline) run->result.records = {};
  return run;
}

}  // namespace hajax::emulator
