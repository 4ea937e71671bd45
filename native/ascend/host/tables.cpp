#include "native/ascend/host/tables.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "native/ascend/host/acl_calls.h"
#include "native/ascend/host/step_kind.h"

namespace hajax::ascend::host {
namespace {

constexpr int64_t kReal = sizeof(float);

bool moves_state(const PlanView& view, const hj_npu_program& program, int32_t opcode, int32_t tensor) {
  const int64_t steps = int64_t{program.setup} + program.body + program.finish;
  for (int64_t i = 0; i < steps; ++i) {
    const hj_step step = step_of(view, program, i);
    if (step.opcode == opcode && step.p[0] == tensor) return true;
  }
  return false;
}

}  // namespace

Sizes sizes_of(const PlanView& view, const hj_delta_call& call, const Sequences& sequences) {
  const hj_npu_plan& p = view.plan;
  constexpr int64_t kHalf = 2;
  const int64_t tokens = call.batch * call.tokens;
  const int64_t strength = p.value_heads * sequences.gates * kReal;
  Sizes sizes = {};
  sizes.key = tokens * p.key_heads * p.key_dim * kHalf;
  sizes.value = tokens * p.value_heads * p.value_dim * kHalf;
  sizes.log_decay = view.per_channel() ? tokens * p.value_heads * p.key_dim * kReal : strength;
  sizes.strength = strength;
  sizes.row = p.value_heads * view.output_bytes() * p.value_dim;
  sizes.output = tokens * sizes.row;
  sizes.state = int64_t{p.value_heads} * p.key_dim * p.value_dim * kReal;
  return sizes;
}

Failure workspace_of(const PlanView& view, const Sequences& sequences, Workspace* workspace) {
  const int64_t slots = view.plan.value_heads * (sequences.gates / view.plan.chunk);
  const int64_t slot = view.plan.workspace_slot_bytes;
  if (slot > 0 && slots > INT64_MAX / 2 / slot) return bad_call("tokens", "a workspace that fits 62 bits", "more");
  *workspace = {slots * slot, 0};
  for (const hj_npu_launch& launch : view.launches) {
    if (launch.sync_after != 0) workspace->meetings = static_cast<int64_t>(view.launches.size()) * HJ_MEETING_BYTES;
  }
  return {};
}

std::vector<uint8_t> call_bytes(const PlanView& view, const hj_delta_call& call, const Sequences& sequences,
                                const Workspace& workspace) {
  const size_t launches = view.launches.size();
  const size_t table = launches * sizeof(hj_npu_call);
  std::vector<uint8_t> bytes(table + sequences.rows.size() * sizeof(hj_npu_sequence));
  for (size_t i = 0; i < launches; ++i) {
    hj_npu_call one = {};
    one.sequence_offset = static_cast<int64_t>(table - i * sizeof one);
    one.gates = sequences.gates;
    one.launch = static_cast<int32_t>(i);
    one.scale = call.scale;
    one.meeting_offset = workspace.slots + static_cast<int64_t>(i) * HJ_MEETING_BYTES;
    memcpy(bytes.data() + i * sizeof one, &one, sizeof one);
  }
  memcpy(bytes.data() + table, sequences.rows.data(), sequences.rows.size() * sizeof(hj_npu_sequence));
  return bytes;
}

std::vector<Range> outside(const hj_delta_call& call, const Sizes& sizes) {
  std::vector<Range> found;
  const auto add = [&](int64_t token, int64_t count) {
    if (count > 0) found.push_back({token * sizes.row, count * sizes.row});
  };
  for (int64_t b = 0; b < call.batch; ++b) {
    const int32_t* bounds = call.bounds + b * (call.sequences + 1);
    const int64_t first = b * call.tokens;
    const int64_t end = bounds[call.sequences];
    add(first, bounds[0]);
    add(first + end, call.tokens - end);
  }
  return found;
}

std::vector<Range> untouched(const Sequences& sequences, const Sizes& sizes) {
  std::vector<Range> found;
  for (const hj_npu_sequence& sequence : sequences.rows) {
    if (sequence.tokens == 0) found.push_back({sequence.state * sizes.state, sizes.state});
  }
  return found;
}

bool in_place(const PlanView& view) {
  std::vector<bool> reads;
  for (const hj_npu_program& program : view.programs) {
    reads.push_back(moves_state(view, program, kOp_rows_to_ub, kTensor_state_in));
    const bool writes = moves_state(view, program, kOp_rows_from_ub, kTensor_state_out);
    if (reads.back() && !writes) return false;
  }
  std::vector<std::tuple<int32_t, int32_t, int32_t, int32_t>> places;  // sequence, head, first and last column
  for (const hj_npu_item& item : view.items) {
    const auto number = static_cast<size_t>(item.program);
    if (!reads[number]) continue;
    for (int32_t head = 0; head < view.programs[number].heads; ++head) {
      places.emplace_back(item.sequence, item.head + head, item.column, item.column + view.programs[number].columns);
    }
  }
  std::sort(places.begin(), places.end());
  for (size_t i = 1; i < places.size(); ++i) {
    const auto& [sequence, head, column, end] = places[i - 1];
    const auto& [next_sequence, next_head, next_column, next_end] = places[i];
    if (sequence == next_sequence && head == next_head && next_column < end) return false;
  }
  return true;
}

int32_t kernels_of(const PlanView& view, const Sequences& sequences) {
  if (sequences.gates == 0) return 0;
  int32_t kernels = 0;
  for (size_t i = 0; i < view.launches.size(); ++i) kernels += view.follows(i) ? 0 : 1;
  return kernels;
}

Failure queue_kernels(const PlanView& view, const Kernel& kernel, const KernelArguments& arguments,
                      aclrtStream stream) {
  for (size_t i = 0; i < view.launches.size(); ++i) {
    if (view.follows(i)) continue;
    KernelArguments own = arguments;
    own.call = static_cast<uint8_t*>(arguments.call) + i * sizeof(hj_npu_call);
    const uint32_t code = launch_kernel(kernel, static_cast<uint32_t>(view.launches[i].cores), stream, own);
    if (Failure f = acl("launch of hajax_delta_rule", static_cast<aclError>(code), kStatus_launch_error); f.failed()) {
      return f;
    }
  }
  return {};
}

}  // namespace hajax::ascend::host
