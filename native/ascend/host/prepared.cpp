#include "native/ascend/host/prepared.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>

#include "native/ascend/host/call_check.h"

namespace hajax::ascend::host {
namespace {

std::atomic<int64_t> all_resets{0};

// Never destroyed: handles may be closed while the process ends.
struct Kept {
  std::mutex lock;
  Failure failure;
};

Kept& kept() {
  static auto* const one = new Kept();
  return *one;
}

Failure check_device(const Plan& plan) {
  int32_t device = 0;
  int64_t cores = 0;
  if (Failure f = acl("aclrtGetDevice", aclrtGetDevice(&device)); f.failed()) return f;
  const auto number = static_cast<uint32_t>(device);
  if (Failure f = acl("aclGetDeviceCapability", aclGetDeviceCapability(number, ACL_DEVICE_INFO_AI_CORE_NUM, &cores));
      f.failed()) {
    return f;
  }
  for (const hj_npu_launch& launch : plan.view().launches) {
    if (launch.cores > cores) {
      return wrong(kStatus_unsupported, "plan", "cores", "at most " + std::to_string(cores) + ", the device's",
                   std::to_string(launch.cores));
    }
  }
  return {};
}

// A plan of another version is told from a broken one.
Failure check_version(const void* plan, int64_t plan_bytes) {
  hj_plan_header header;
  if (plan == nullptr || plan_bytes < static_cast<int64_t>(sizeof header)) return {};
  memcpy(&header, plan, sizeof header);
  if (header.magic != HJ_PLAN_MAGIC) return {};
  static const char digits[] = "0123456789abcdef";
  std::string digest;
  for (const uint8_t byte : header.abi_digest) {
    digest += digits[byte >> 4];
    digest += digits[byte & 15];
  }
  if (digest == HAJAX_ABI_DIGEST) return {};
  return wrong(kStatus_plan_version, "plan", "abi_digest", std::string(HAJAX_ABI_DIGEST) + " (this library's)", digest);
}

}  // namespace

int64_t resets() { return all_resets; }

void reset() {
  ++all_resets;
  take_kept();
}

void keep(const Failure& failure) {
  const std::lock_guard guard(kept().lock);
  if (!kept().failure.failed()) kept().failure = failure;
}

Failure take_kept() {
  const std::lock_guard guard(kept().lock);
  return std::exchange(kept().failure, Failure{});
}

Failure Placed::put(const std::vector<uint8_t>& bytes) {
  resets_ = resets();
  if (Failure f = acl("aclrtGetCurrentContext", aclrtGetCurrentContext(&context_)); f.failed()) return f;
  return memory_.fill_from(bytes.data(), static_cast<int64_t>(bytes.size()));
}

Placed::~Placed() {
  if (memory_.address() == nullptr) return;
  if (gone()) {
    memory_.forget();
    return;
  }
  const InContext in(context_);
  if (in.failure().failed()) {  // its device was closed, which took the memory back
    memory_.forget();
    return;
  }
  keep(acl("aclrtSynchronizeDevice", aclrtSynchronizeDevice(), kStatus_stream_error));
  keep(acl("aclrtFree", aclrtFree(memory_.address())));
  memory_.forget();
}

Failure Plan::open(const Chip& chip, const void* plan, int64_t plan_bytes) {
  if (Failure f = check_version(plan, plan_bytes); f.failed()) return f;
  if (plan == nullptr) return bad_plan("bytes", "an address", "null");
  const auto* first = static_cast<const uint8_t*>(plan);
  bytes_.assign(first, first + std::max<int64_t>(plan_bytes, 0));
  if (Failure f = read_plan(bytes_.data(), plan_bytes, chip, &view_); f.failed()) return f;
  if (Failure f = check_device(*this); f.failed()) return f;
  in_place_ = host::in_place(view_);
  return placed_.put(bytes_);
}

Failure Call::open(std::shared_ptr<const Plan> plan, const hj_delta_call& call) {
  plan_ = std::move(plan);
  const PlanView& view = plan_->view();
  if (plan_->placed().gone()) return bad_call("plan", "one that was opened since the device was", "an older one");
  if (Failure f = check_call(view, call, false); f.failed()) return f;
  const Sequences sequences = sequences_of(view, call);
  const Sizes sizes = sizes_of(view, call, sequences);
  if (Failure f = workspace_of(view, sequences, &workspace_); f.failed()) return f;
  needs_.query_bytes = sizes.key;
  needs_.value_bytes = sizes.value;
  needs_.log_decay_bytes = sizes.log_decay;
  needs_.strength_bytes = sizes.strength;
  needs_.state_bytes = view.plan.sequences * sizes.state;
  needs_.output_bytes = sizes.output;
  needs_.workspace_bytes = Memory::room(workspace_.slots + workspace_.meetings);
  needs_.gates = sequences.gates;
  needs_.chunk = view.plan.chunk;
  needs_.launches = kernels_of(view, sequences);
  for (const hj_npu_launch& launch : view.launches) needs_.cores = std::max(needs_.cores, launch.cores);
  needs_.strengths = view.plan.header.strengths;
  needs_.in_place = plan_->in_place() ? 1 : 0;
  outside_ = outside(call, sizes);
  untouched_ = untouched(sequences, sizes);
  const InContext in(plan_->placed().context());
  if (in.failure().failed()) return in.failure();
  return placed_.put(call_bytes(view, call, sequences, workspace_));
}

Failure Call::check(const hj_ascend_arrays& arrays) const {
  if (placed_.gone()) return bad_call("call", "one that was opened since the device was", "an older one");
  struct Array {
    const char* name;
    const void* address;
    int64_t bytes;
  };
  constexpr uintptr_t kAlignment = 32;
  for (const Array& array : {
           Array{"query", arrays.query, needs_.query_bytes},
           Array{"key", arrays.key, needs_.query_bytes},
           Array{"value", arrays.value, needs_.value_bytes},
           Array{"log_decay", arrays.log_decay, needs_.log_decay_bytes},
           Array{"beta", arrays.beta, needs_.strength_bytes},
           Array{"erase", arrays.erase, needs_.strengths == 2 ? needs_.strength_bytes : 0},
           Array{"state_in", arrays.state_in, needs_.state_bytes},
           Array{"output", arrays.output, needs_.output_bytes},
           Array{"state_out", arrays.state_out, needs_.state_bytes},
           Array{"workspace", arrays.workspace, needs_.workspace_bytes},
       }) {
    if (array.bytes == 0) continue;
    if (array.address == nullptr) return bad_call(array.name, std::to_string(array.bytes) + " bytes", "null");
    if (reinterpret_cast<uintptr_t>(array.address) % kAlignment != 0) {
      return bad_call(array.name, "a device address that is a multiple of 32",
                      std::to_string(reinterpret_cast<uintptr_t>(array.address)));
    }
  }
  if (arrays.state_in == arrays.state_out && needs_.in_place == 0 && needs_.state_bytes > 0) {
    return bad_call("state_out", "another array than state_in, as this plan reads states that it has written",
                    "the same");
  }
  return {};
}

Failure Call::queue_fills(const hj_ascend_arrays& arrays, aclrtStream stream) const {
  const auto zero = [&](void* base, int64_t offset, int64_t bytes) {
    const auto size = static_cast<size_t>(bytes);
    return acl("aclrtMemsetAsync", aclrtMemsetAsync(static_cast<uint8_t*>(base) + offset, size, 0, size, stream),
               kStatus_launch_error);
  };
  for (const Range& range : outside_) {
    if (Failure f = zero(arrays.output, range.offset, range.bytes); f.failed()) return f;
  }
  if (workspace_.meetings > 0 && needs_.launches > 0) {
    if (Failure f = zero(arrays.workspace, workspace_.slots, workspace_.meetings); f.failed()) return f;
  }
  if (arrays.state_in == arrays.state_out) return {};
  for (const Range& range : untouched_) {
    const auto size = static_cast<size_t>(range.bytes);
    void* to = static_cast<uint8_t*>(arrays.state_out) + range.offset;
    const void* from = static_cast<const uint8_t*>(arrays.state_in) + range.offset;
    if (Failure f = acl("aclrtMemcpyAsync", aclrtMemcpyAsync(to, size, from, size, ACL_MEMCPY_DEVICE_TO_DEVICE, stream),
                        kStatus_launch_error);
        f.failed()) {
      return f;
    }
  }
  return {};
}

Failure Call::launch(const hj_ascend_arrays& arrays, aclrtStream stream) const {
  if (Failure f = take_kept(); f.failed()) return f;
  if (Failure f = check(arrays); f.failed()) return f;
  const InContext in(placed_.context());
  if (in.failure().failed()) return in.failure();
  if (Failure f = queue_fills(arrays, stream); f.failed()) return f;
  if (needs_.launches == 0) return {};
  const auto address = [](const void* pointer) { return const_cast<void*>(pointer); };
  KernelArguments arguments = {};
  arguments.plan = plan_->placed().address();
  arguments.call = placed_.address();
  arguments.query = address(arrays.query);
  arguments.key = address(arrays.key);
  arguments.value = address(arrays.value);
  arguments.log_decay = address(arrays.log_decay);
  arguments.beta = address(arrays.beta);
  arguments.erase = address(needs_.strengths == 2 ? arrays.erase : arrays.beta);  // with one strength it erases, too
  arguments.state_in = address(arrays.state_in);
  arguments.output = arrays.output;
  arguments.state_out = arrays.state_out;
  arguments.workspace = arrays.workspace;
  return queue_kernels(plan_->view(), Kernel{}, arguments, stream);
}

}  // namespace hajax::ascend::host
