#include "native/ascend/host/execute.h"

#include <cstring>

#include "acl/acl.h"
#include "native/ascend/host/call_check.h"
#include "native/ascend/host/gates.h"
#include "native/ascend/host/inputs.h"

namespace hajax::ascend::host {
namespace {

Failure acl(const char* what, aclError code) {
  if (code == ACL_SUCCESS) return {};
  const char* text = aclGetRecentErrMsg();
  std::string message = std::string(what) + " failed with ACL error " + std::to_string(code);
  if (text != nullptr) message += std::string(": ") + text;
  return {kStatus_internal, message};
}

// Device memory; never empty, so that a kernel always has an address.
class Memory {
 public:
  Memory() = default;
  ~Memory() {
    if (address_ != nullptr) aclrtFree(address_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  Failure allocate(int64_t bytes) {
    bytes_ = bytes;
    constexpr int64_t kLeast = 32;
    return acl("aclrtMalloc",
               aclrtMalloc(&address_, static_cast<size_t>(bytes < kLeast ? kLeast : bytes), ACL_MEM_MALLOC_HUGE_FIRST));
  }
  Failure fill_from(const void* host, int64_t bytes) {
    if (Failure f = allocate(bytes); f.failed() || bytes == 0) return f;
    const auto size = static_cast<size_t>(bytes);
    return acl("aclrtMemcpy", aclrtMemcpy(address_, size, host, size, ACL_MEMCPY_HOST_TO_DEVICE));
  }
  Failure fill_from(const std::vector<float>& host) {
    return fill_from(host.data(), static_cast<int64_t>(host.size() * sizeof(float)));
  }
  Failure read(void* host, int64_t offset, int64_t bytes) const {
    if (bytes == 0) return {};
    const auto size = static_cast<size_t>(bytes);
    return acl("aclrtMemcpy", aclrtMemcpy(host, size, at(offset), size, ACL_MEMCPY_DEVICE_TO_HOST));
  }
  Failure zero(int64_t offset, int64_t bytes) {
    if (bytes == 0) return {};
    const auto size = static_cast<size_t>(bytes);
    return acl("aclrtMemset", aclrtMemset(at(offset), size, 0, size));
  }
  void* at(int64_t offset) const { return static_cast<uint8_t*>(address_) + offset; }
  void* address() const { return address_; }

 private:
  void* address_ = nullptr;
  int64_t bytes_ = 0;
};

class Stream {
 public:
  Stream() = default;
  ~Stream() {
    if (stream_ != nullptr) aclrtDestroyStream(stream_);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  Failure create() { return acl("aclrtCreateStream", aclrtCreateStream(&stream_)); }
  Failure finish() { return acl("hajax_delta_rule", aclrtSynchronizeStream(stream_)); }
  aclrtStream get() const { return stream_; }

 private:
  aclrtStream stream_ = nullptr;
};

// Everything that a call has on the device.
struct Arrays {
  Memory plan, call, query, key, value, log_decay, beta, erase, state_in, output, state_out, workspace;
};

struct Sizes {
  int64_t key;     // bytes of query, and of key
  int64_t value;   // bytes
  int64_t row;     // bytes of a token's output
  int64_t output;  // bytes
  int64_t state;   // bytes of a sequence's state
};

Sizes sizes_of(const PlanView& view, const hj_delta_call& call) {
  const hj_npu_plan& p = view.plan;
  constexpr int64_t kHalf = 2;
  const int64_t tokens = call.batch * call.tokens;
  const int64_t row = p.value_heads * view.output_bytes() * p.value_dim;
  return {tokens * p.key_heads * p.key_dim * kHalf, tokens * p.value_heads * p.value_dim * kHalf, row, tokens * row,
          int64_t{p.value_heads} * p.key_dim * p.value_dim * static_cast<int64_t>(sizeof(float))};
}

// The workspace: slots, then for each launch that is synced where its cores meet, zeroed, as they count there.
struct Workspace {
  int64_t slots;     // bytes
  int64_t meetings;  // bytes
};

Workspace workspace_of(const PlanView& view, const Sequences& sequences) {
  const int64_t slots = view.plan.value_heads * (sequences.gates / view.plan.chunk);
  int64_t meetings = 0;
  for (const hj_npu_launch& launch : view.launches) {
    if (launch.sync_after != 0) meetings = static_cast<int64_t>(view.launches.size()) * HJ_MEETING_BYTES;
  }
  return {slots * view.plan.workspace_slot_bytes, meetings};
}

// An hj_npu_call a launch, then the one table of sequences. A launch that follows another needs none and has one.
std::vector<uint8_t> call_bytes(const PlanView& view, const hj_delta_call& call, const Sequences& sequences) {
  const int64_t meetings = workspace_of(view, sequences).slots;
  const size_t launches = view.launches.size();
  const size_t table = launches * sizeof(hj_npu_call);
  std::vector<uint8_t> bytes(table + sequences.rows.size() * sizeof(hj_npu_sequence));
  for (size_t i = 0; i < launches; ++i) {
    hj_npu_call one = {};
    one.sequence_offset = static_cast<int64_t>(table - i * sizeof one);
    one.gates = sequences.gates;
    one.launch = static_cast<int32_t>(i);
    one.scale = call.scale;
    one.meeting_offset = meetings + static_cast<int64_t>(i) * HJ_MEETING_BYTES;
    memcpy(bytes.data() + i * sizeof one, &one, sizeof one);
  }
  memcpy(bytes.data() + table, sequences.rows.data(), sequences.rows.size() * sizeof(hj_npu_sequence));
  return bytes;
}

Failure upload(const PlanView& view, const hj_delta_call& call, const Sequences& sequences, const Gates& gates,
               const Sizes& sizes, Arrays* arrays) {
  const hj_npu_plan& p = view.plan;
  const int64_t slots = p.value_heads * (sequences.gates / p.chunk);
  if (p.workspace_slot_bytes > 0 && slots > INT64_MAX / 2 / p.workspace_slot_bytes) {
    return bad_call("tokens", "a workspace that fits 62 bits", "more");
  }
  const Workspace workspace = workspace_of(view, sequences);
  const std::vector<uint8_t> calls = call_bytes(view, call, sequences);
  for (const auto& fill : {
           arrays->plan.fill_from(view.bytes, p.header.total_bytes),
           arrays->call.fill_from(calls.data(), static_cast<int64_t>(calls.size())),
           arrays->query.fill_from(call.query, sizes.key),
           arrays->key.fill_from(call.key, sizes.key),
           arrays->value.fill_from(call.value, sizes.value),
           arrays->log_decay.fill_from(gates.log_decay),
           arrays->beta.fill_from(gates.beta),
           arrays->erase.fill_from(gates.erase),
           arrays->state_in.fill_from(call.state_in, p.sequences * sizes.state),
           arrays->output.allocate(sizes.output),
           arrays->state_out.allocate(p.sequences * sizes.state),
           arrays->workspace.allocate(workspace.slots + workspace.meetings),
       }) {
    if (fill.failed()) return fill;
  }
  if (Failure f = arrays->workspace.zero(workspace.slots, workspace.meetings); f.failed()) return f;
  // Tokens before a row's first sequence and behind its last.
  for (int64_t b = 0; b < call.batch; ++b) {
    const int32_t* bounds = call.bounds + b * (call.sequences + 1);
    const int64_t first = b * call.tokens;
    const int64_t end = bounds[call.sequences];
    for (const Failure& f : {arrays->output.zero(first * sizes.row, bounds[0] * sizes.row),
                             arrays->output.zero((first + end) * sizes.row, (call.tokens - end) * sizes.row)}) {
      if (f.failed()) return f;
    }
  }
  return {};
}

Failure launch_all(const PlanView& view, const Kernel& kernel, const Arrays& arrays) {
  Stream stream;
  if (Failure f = stream.create(); f.failed()) return f;
  // With one strength it erases, too.
  void* erase = view.plan.header.strengths == 2 ? arrays.erase.address() : arrays.beta.address();
  for (size_t i = 0; i < view.launches.size(); ++i) {
    if (view.follows(i)) continue;
    const KernelArguments arguments = {
        arrays.plan.address(),      arrays.call.at(static_cast<int64_t>(i * sizeof(hj_npu_call))),
        arrays.query.address(),     arrays.key.address(),
        arrays.value.address(),     arrays.log_decay.address(),
        arrays.beta.address(),      erase,
        arrays.state_in.address(),  arrays.output.address(),
        arrays.state_out.address(), arrays.workspace.address()};
    const uint32_t code = launch_kernel(kernel, static_cast<uint32_t>(view.launches[i].cores), stream.get(), arguments);
    if (Failure f = acl("launch of hajax_delta_rule", static_cast<aclError>(code)); f.failed()) return f;
  }
  return stream.finish();
}

// Outputs, and the states of sequences that the kernel has run; an empty sequence keeps its state.
Failure download(const hj_delta_call& call, const Sequences& sequences, const Sizes& sizes, const Arrays& arrays) {
  if (Failure f = arrays.output.read(call.output, 0, sizes.output); f.failed()) return f;
  for (const hj_npu_sequence& sequence : sequences.rows) {
    const int64_t offset = sequence.state * sizes.state;
    uint8_t* to = reinterpret_cast<uint8_t*>(call.state_out) + offset;
    if (sequence.tokens > 0) {
      if (Failure f = arrays.state_out.read(to, offset, sizes.state); f.failed()) return f;
    } else {
      memmove(to, reinterpret_cast<const uint8_t*>(call.state_in) + offset, static_cast<size_t>(sizes.state));
    }
  }
  return {};
}

void count(const PlanView& view, const Sequences& sequences, Done* done) {
  for (size_t i = 0; i < view.launches.size(); ++i) {
    const hj_npu_launch& launch = view.launches[i];
    if (!view.follows(i)) ++done->launches;
    if (launch.cores > done->cores) done->cores = launch.cores;
    int64_t item = launch.first_item;
    for (int32_t core = 0; core < launch.cores; ++core) {
      for (int32_t n = 0; n < launch.core_items[core]; ++n, ++item) {
        const hj_npu_item& one = view.items[static_cast<size_t>(item)];
        const int64_t tokens = sequences.rows[static_cast<size_t>(one.sequence)].tokens;
        const int64_t chunks = (tokens + view.plan.chunk - 1) / view.plan.chunk - one.first_chunk;
        ++done->items;
        if (chunks > 0) done->chunks += one.chunks >= 0 && one.chunks < chunks ? one.chunks : chunks;
      }
    }
  }
}

}  // namespace

Failure execute(const PlanView& view, const hj_delta_call& call, const Kernel& kernel, Done* done) {
  if (Failure f = check_call(view, call); f.failed()) return f;
  const Sequences sequences = sequences_of(view, call);
  if (Failure f = check_inputs(view, call, sequences); f.failed()) return f;
  Gates gates;
  if (Failure f = make_gates(view, call, sequences, &gates); f.failed()) return f;
  const Sizes sizes = sizes_of(view, call);
  Arrays arrays;
  if (sequences.gates == 0) {  // nothing to run
    if (sizes.output > 0) memset(call.output, 0, static_cast<size_t>(sizes.output));
    return download(call, sequences, {sizes.key, sizes.value, sizes.row, 0, sizes.state}, arrays);
  }
  if (Failure f = upload(view, call, sequences, gates, sizes, &arrays); f.failed()) return f;
  count(view, sequences, done);
  if (Failure f = launch_all(view, kernel, arrays); f.failed()) return f;
  return download(call, sequences, sizes, arrays);
}

}  // namespace hajax::ascend::host
