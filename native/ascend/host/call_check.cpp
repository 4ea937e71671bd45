#include "native/ascend/host/call_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <tuple>
#include <vector>

#include "native/ascend/host/step_kind.h"

namespace hajax::ascend::host {
namespace {

constexpr int64_t kMostBytes = INT64_MAX / 8;

// The product of sizes that are not negative, or -1 when it is past kMostBytes.
int64_t product(std::initializer_list<int64_t> sizes) {
  int64_t n = 1;
  for (const int64_t size : sizes) {
    if (size == 0) return 0;
  }
  for (const int64_t size : sizes) {
    if (n > kMostBytes / size) return -1;
    n *= size;
  }
  return n;
}

struct Buffer {
  const char* field;
  const void* pointer;
  int64_t bytes;  // -1: more than fit
};

Failure check_sizes(const PlanView& view, const hj_delta_call& call) {
  if (call.batch < 0) return bad_call("batch", "0 or more", call.batch);
  if (call.tokens < 0 || call.tokens > INT32_MAX) return bad_call("tokens", range_text(0, INT32_MAX), call.tokens);
  if (call.sequences < 1 || call.sequences > INT32_MAX) {
    return bad_call("sequences", range_text(1, INT32_MAX), call.sequences);
  }
  const int64_t sequences = product({call.batch, call.sequences});
  if (sequences != view.plan.sequences) {
    return bad_call("batch times sequences", std::to_string(view.plan.sequences) + " as the plan says", sequences);
  }
  if (!std::isfinite(call.scale)) return bad_call("scale", "a finite number", std::to_string(call.scale));
  if (!(call.l2norm_eps < 0)) {
    return bad_call("l2norm_eps", "a negative number, as an NPU plan takes query and key as they are",
                    std::to_string(call.l2norm_eps));
  }
  return {};
}

std::vector<Buffer> buffers_of(const PlanView& view, const hj_delta_call& call) {
  const hj_npu_plan& p = view.plan;
  constexpr int64_t kHalf = 2;
  constexpr int64_t kReal = sizeof(float);
  const int64_t b = call.batch;
  const int64_t t = call.tokens;
  const int64_t n = call.sequences;
  const void* log_decay = p.header.decay == kDecay_none ? call.beta : call.log_decay;
  const int64_t channels = view.per_channel() ? p.key_dim : 1;
  return {
      {"query", call.query, product({b, t, p.key_heads, p.key_dim, kHalf})},
      {"key", call.key, product({b, t, p.key_heads, p.key_dim, kHalf})},
      {"value", call.value, product({b, t, p.value_heads, p.value_dim, kHalf})},
      {"beta", call.beta, product({b, t, p.value_heads, p.header.strengths, kReal})},
      {"log_decay", log_decay, product({b, t, p.value_heads, channels, kReal})},
      {"state_in", call.state_in, product({b, n, p.value_heads, p.key_dim, p.value_dim, kReal})},
      {"bounds", call.bounds, product({b, n + 1, kReal})},
      {"output", call.output, product({b, t, p.value_heads, p.value_dim, view.output_bytes()})},
      {"state_out", call.state_out, product({b, n, p.value_heads, p.key_dim, p.value_dim, kReal})},
  };
}

// `all`: on the host's addresses too, else only on that of the bounds.
Failure check_buffers(const PlanView& view, const hj_delta_call& call, bool all) {
  for (const Buffer& buffer : buffers_of(view, call)) {
    if (buffer.bytes < 0) return bad_call(buffer.field, "a size that fits 60 bits", "more");
    const bool looked_at = all || strcmp(buffer.field, "bounds") == 0;
    if (looked_at && buffer.bytes > 0 && buffer.pointer == nullptr) {
      return bad_call(buffer.field, std::to_string(buffer.bytes) + " bytes", "null");
    }
  }
  return {};
}

Failure check_bounds(const hj_delta_call& call) {
  for (int64_t b = 0; b < call.batch; ++b) {
    const int32_t* bounds = call.bounds + b * (call.sequences + 1);
    int32_t lowest = 0;
    for (int64_t n = 0; n <= call.sequences; ++n) {
      if (bounds[n] < lowest || bounds[n] > call.tokens) {
        return bad_call("lengths or cu_seqlens, as bounds[" + std::to_string(b) + "][" + std::to_string(n) + "]",
                        range_text(lowest, call.tokens) + " (ascending, at most tokens)", bounds[n]);
      }
      lowest = bounds[n];
    }
  }
  return {};
}

bool writes_output(const PlanView& view, const hj_npu_program& program) {
  const int64_t steps = int64_t{program.setup} + program.body + program.finish;
  for (int64_t i = 0; i < steps; ++i) {
    const hj_step step = step_of(view, program, i);
    if (step.opcode == kOp_rows_from_ub && step.p[0] == kTensor_output) return true;
  }
  return false;
}

// Chunks of one head that an item works on: with others for the output, or for what a later launch takes up.
struct Range {
  int64_t sequence, head, writes, first, end;

  bool operator<(const Range& other) const {
    return std::tie(sequence, head, writes, first) < std::tie(other.sequence, other.head, other.writes, other.first);
  }
  bool continues(const Range& other) const {
    return std::tie(sequence, head, writes) == std::tie(other.sequence, other.head, other.writes);
  }
};

std::vector<Range> ranges_of(const PlanView& view) {
  std::vector<Range> ranges;
  const auto all = [](const hj_npu_item& item) { return item.first_chunk == 0 && item.chunks < 0; };
  if (std::all_of(view.items.begin(), view.items.end(), all)) return ranges;
  std::vector<bool> writes;
  for (const hj_npu_program& program : view.programs) writes.push_back(writes_output(view, program));
  for (const hj_npu_item& item : view.items) {
    const auto program = static_cast<size_t>(item.program);
    const int64_t end = item.chunks < 0 ? INT32_MAX : int64_t{item.first_chunk} + item.chunks;
    for (int32_t head = 0; head < view.programs[program].heads; ++head) {
      ranges.push_back({item.sequence, item.head + head, writes[program], item.first_chunk, end});
    }
  }
  std::sort(ranges.begin(), ranges.end());
  return ranges;
}

Failure check_chunks(const PlanView& view, const hj_delta_call& call) {
  const std::vector<Range> ranges = ranges_of(view);
  for (size_t i = 0; i < ranges.size();) {
    const Range& first = ranges[i];
    int64_t reached = 0;
    for (; i < ranges.size() && ranges[i].continues(first) && ranges[i].first <= reached; ++i) {
      reached = std::max(reached, ranges[i].end);
    }
    while (i < ranges.size() && ranges[i].continues(first)) ++i;
    const int64_t row = first.sequence / call.sequences;
    const int32_t* bounds = call.bounds + row * (call.sequences + 1) + first.sequence % call.sequences;
    const int64_t tokens = bounds[1] - bounds[0];
    if (tokens > reached * view.plan.chunk) {
      return bad_call("tokens of sequence " + std::to_string(first.sequence),
                      "at most " + std::to_string(reached * view.plan.chunk) + ", as the plan's items reach no further",
                      tokens);
    }
  }
  return {};
}

}  // namespace

Failure check_call(const PlanView& view, const hj_delta_call& call, bool on_host) {
  if (Failure f = check_sizes(view, call); f.failed()) return f;
  if (Failure f = check_buffers(view, call, on_host); f.failed()) return f;
  if (Failure f = check_bounds(call); f.failed()) return f;
  return check_chunks(view, call);
}

}  // namespace hajax::ascend::host
