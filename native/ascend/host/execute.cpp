#include "native/ascend/host/execute.h"

#include <cstring>

#include "native/ascend/host/acl_calls.h"
#include "native/ascend/host/call_check.h"
#include "native/ascend/host/gates.h"
#include "native/ascend/host/inputs.h"
#include "native/ascend/host/tables.h"

namespace hajax::ascend::host {
namespace {

// Everything that a call has on the device.
struct Arrays {
  Memory plan, call, query, key, value, log_decay, beta, erase, state_in, output, state_out, workspace;
};

Failure upload(const PlanView& view, const hj_delta_call& call, const Sequences& sequences, const Gates& gates,
               const Sizes& sizes, Arrays* arrays) {
  const hj_npu_plan& p = view.plan;
  Workspace workspace = {};
  if (Failure f = workspace_of(view, sequences, &workspace); f.failed()) return f;
  const std::vector<uint8_t> calls = call_bytes(view, call, sequences, workspace);
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
  for (const Range& range : outside(call, sizes)) {
    if (Failure f = arrays->output.zero(range.offset, range.bytes); f.failed()) return f;
  }
  return {};
}

Failure launch_all(const PlanView& view, const Kernel& kernel, const Arrays& arrays) {
  Stream stream;
  if (Failure f = stream.create(); f.failed()) return f;
  const KernelArguments arguments = {
      arrays.plan.address(), arrays.call.address(), arrays.query.address(), arrays.key.address(),
      arrays.value.address(), arrays.log_decay.address(), arrays.beta.address(),
      // With one strength it erases, too.
      view.plan.header.strengths == 2 ? arrays.erase.address() : arrays.beta.address(), arrays.state_in.address(),
      arrays.output.address(), arrays.state_out.address(), arrays.workspace.address()};
  if (Failure f = queue_kernels(view, kernel, arguments, stream.get()); f.failed()) return f;
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
  Sizes sizes = sizes_of(view, call, sequences);
  Arrays arrays;
  if (sequences.gates == 0) {  // nothing to run
    if (sizes.output > 0) memset(call.output, 0, static_cast<size_t>(sizes.output));
    sizes.output = 0;
    return download(call, sequences, sizes, arrays);
  }
  if (Failure f = upload(view, call, sequences, gates, sizes, &arrays); f.failed()) return f;
  count(view, sequences, done);
  if (Failure f = launch_all(view, kernel, arrays); f.failed()) return f;
  return download(call, sequences, sizes, arrays);
}

}  // namespace hajax::ascend::host
