#include "native/cpu/call_check.h"

#include <cmath>
#include <cstdint>

namespace hajax::cpu {

Failure bad_call(const std::string& field, const std::string& expected, const std::string& got) {
  return wrong(kStatus_bad_call, "call", field, expected, got);
}

int64_t product(std::initializer_list<int64_t> sizes) {
  constexpr int64_t kMost = INT64_MAX / 2;
  int64_t n = 1;
  for (int64_t size : sizes) {
    if (size == 0) return 0;
  }
  for (int64_t size : sizes) {
    if (n > kMost / size) return -1;
    n *= size;
  }
  return n;
}

Failure check_buffer(const std::string& field, const void* pointer, std::initializer_list<int64_t> sizes) {
  const int64_t bytes = product(sizes);
  if (bytes < 0) return bad_call(field, "a size that fits 63 bits", "more");
  if (bytes > 0 && pointer == nullptr) return bad_call(field, std::to_string(bytes) + " bytes", "null");
  return {};
}

namespace {

Failure check_sizes(const hj_delta_call& call) {
  if (call.batch < 0) return bad_call("batch", "0 or more", std::to_string(call.batch));
  if (call.tokens < 0 || call.tokens > INT32_MAX)
    return bad_call("tokens", "0..2147483647", std::to_string(call.tokens));
  if (call.sequences < 1 || call.sequences > INT32_MAX) {
    return bad_call("sequences", "1..2147483647", std::to_string(call.sequences));
  }
  if (!std::isfinite(call.scale)) return bad_call("scale", "a finite number", std::to_string(call.scale));
  if (std::isnan(call.l2norm_eps) || call.l2norm_eps > 1.0f) {
    return bad_call("l2norm_eps", "at most 1, or negative for none", std::to_string(call.l2norm_eps));
  }
  return {};
}

Failure check_operands(const hj_cpu_plan& p, const hj_delta_call& call) {
  const int64_t in = dtype_bytes(p.input_dtype);
  const int64_t real = sizeof(float);
  const int64_t b = call.batch;
  const int64_t t = call.tokens;
  const void* log_decay = p.header.decay == kDecay_none ? call.beta : call.log_decay;
  const int64_t channels = p.header.decay == kDecay_per_channel ? p.key_dim : 1;
  for (const Failure& f : {
           check_buffer("query", call.query, {b, t, p.key_heads, p.key_dim, in}),
           check_buffer("key", call.key, {b, t, p.key_heads, p.key_dim, in}),
           check_buffer("value", call.value, {b, t, p.value_heads, p.value_dim, in}),
           check_buffer("beta", call.beta, {b, t, p.value_heads, p.header.strengths, real}),
           check_buffer("log_decay", log_decay, {b, t, p.value_heads, channels, real}),
           check_buffer("state_in", call.state_in, {b, call.sequences, p.value_heads, p.key_dim, p.value_dim, real}),
           check_buffer("bounds", call.bounds, {b, call.sequences + 1, real}),
       }) {
    if (f.failed()) return f;
  }
  return {};
}

Failure check_results(const hj_cpu_plan& p, const hj_delta_call& call) {
  const int64_t out = dtype_bytes(p.output_dtype);
  const int64_t real = sizeof(float);
  const int64_t b = call.batch;
  for (const Failure& f : {
           check_buffer("output", call.output, {b, call.tokens, p.value_heads, p.value_dim, out}),
           check_buffer("state_out", call.state_out, {b, call.sequences, p.value_heads, p.key_dim, p.value_dim, real}),
       }) {
    if (f.failed()) return f;
  }
  return {};
}

Failure check_gradients(const hj_cpu_plan& p, const hj_delta_backward& call) {
  const int64_t in = dtype_bytes(p.input_dtype);
  const int64_t out = dtype_bytes(p.output_dtype);
  const int64_t real = sizeof(float);
  const int64_t b = call.batch;
  const int64_t t = call.tokens;
  const int64_t parts = p.value_heads / p.key_heads / p.group;
  const int64_t part = parts == 1 ? in : real;
  const int64_t channels = p.header.decay == kDecay_per_channel ? p.key_dim : 1;
  const float* log_decay = p.header.decay == kDecay_none ? call.beta_gradient : call.log_decay_gradient;
  const int64_t rows = p.key_dim;
  for (const Failure& f : {
           check_buffer("output_cotangent", call.output_cotangent, {b, t, p.value_heads, p.value_dim, out}),
           check_buffer("state_cotangent", call.state_cotangent,
                        {b, call.sequences, p.value_heads, rows, p.value_dim, real}),
           check_buffer("query_gradient", call.query_gradient, {b, t, p.key_heads, parts, p.key_dim, part}),
           check_buffer("key_gradient", call.key_gradient, {b, t, p.key_heads, parts, p.key_dim, part}),
           check_buffer("value_gradient", call.value_gradient, {b, t, p.value_heads, p.value_dim, in}),
           check_buffer("beta_gradient", call.beta_gradient, {b, t, p.value_heads, p.header.strengths, real}),
           check_buffer("log_decay_gradient", log_decay, {b, t, p.value_heads, channels, real}),
           check_buffer("state_gradient", call.state_gradient,
                        {b, call.sequences, p.value_heads, rows, p.value_dim, real}),
       }) {
    if (f.failed()) return f;
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
                        std::to_string(lowest) + ".." + std::to_string(call.tokens) + " (ascending, at most tokens)",
                        std::to_string(bounds[n]));
      }
      lowest = bounds[n];
    }
  }
  return {};
}

Failure check_scratch_buffer(const hj_cpu_plan& p, const hj_delta_call& call) {
  const int64_t needed = p.workers * p.scratch_bytes;  // cannot overflow: check_scratch
  if (call.scratch_bytes < needed) {
    return bad_call("scratch_bytes", "at least " + std::to_string(needed) + " (workers times the plan's)",
                    std::to_string(call.scratch_bytes));
  }
  if (call.scratch == nullptr) return bad_call("scratch", std::to_string(needed) + " bytes", "null");
  if (reinterpret_cast<uintptr_t>(call.scratch) % kCacheLine != 0) {
    return bad_call("scratch", "a 64-byte aligned address", std::to_string(reinterpret_cast<uintptr_t>(call.scratch)));
  }
  return {};
}

Failure check_tasks(const hj_cpu_plan& p, const hj_delta_call& call) {
  const int64_t items = product({call.batch, call.sequences, p.value_heads, p.column_blocks});
  if (items < 0) return bad_call("batch x sequences", "a number of tasks that fits 63 bits", "more");
  return {};
}

}  // namespace

Failure check_call(const PlanView& view, const hj_delta_call& call) {
  if (Failure f = check_sizes(call); f.failed()) return f;
  if (Failure f = check_operands(view.plan, call); f.failed()) return f;
  if (Failure f = check_results(view.plan, call); f.failed()) return f;
  if (Failure f = check_scratch_buffer(view.plan, call); f.failed()) return f;
  if (Failure f = check_tasks(view.plan, call); f.failed()) return f;
  return check_bounds(call);
}

hj_delta_call operands_of(const hj_delta_backward& call) {
  hj_delta_call operands = {};
  operands.batch = call.batch;
  operands.tokens = call.tokens;
  operands.sequences = call.sequences;
  operands.query = call.query;
  operands.key = call.key;
  operands.value = call.value;
  operands.log_decay = call.log_decay;
  operands.beta = call.beta;
  operands.state_in = call.state_in;
  operands.bounds = call.bounds;
  operands.scratch = call.scratch;
  operands.scratch_bytes = call.scratch_bytes;
  operands.scale = call.scale;
  operands.l2norm_eps = call.l2norm_eps;
  return operands;
}

Failure check_backward_call(const PlanView& view, const hj_delta_backward& call) {
  const hj_delta_call operands = operands_of(call);
  if (Failure f = check_sizes(operands); f.failed()) return f;
  if (Failure f = check_operands(view.plan, operands); f.failed()) return f;
  if (Failure f = check_gradients(view.plan, call); f.failed()) return f;
  if (Failure f = check_scratch_buffer(view.plan, operands); f.failed()) return f;
  if (Failure f = check_tasks(view.plan, operands); f.failed()) return f;
  return check_bounds(operands);
}

}  // namespace hajax::cpu
