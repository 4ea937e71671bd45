// The XLA FFI handler of the delta-rule operators: buffers and plan to hajax_execute. Only this folder sees XLA's
// headers.
#include <cstring>
#include <string>

#include "hajax/abi/hajax.h"
#include "hajax/abi/plan.h"
#include "native/cpu/lists.h"
#include "native/xla/checks.h"
#include "native/xla/pool.h"

namespace hajax::xla {
namespace {

using ResultF32 = ffi::ResultBuffer<ffi::F32>;
using ResultS64 = ffi::ResultBuffer<ffi::S64>;
using ResultU8 = ffi::ResultBuffer<ffi::U8>;

ffi::Error delta_rule(ffi::ThreadPool pool, ffi::AnyBuffer query, ffi::AnyBuffer key, ffi::AnyBuffer value,
                      F32 log_decay, F32 beta, F32 state, S32 bounds, ffi::Result<ffi::AnyBuffer> output,
                      ResultF32 state_out, ResultS64 counters, ResultU8 scratch, ffi::Span<const uint8_t> plan_bytes,
                      float scale, float l2norm_eps) {
  hj_cpu_plan plan;
  if (plan_bytes.size() != sizeof plan) {
    return invalid("plan: size: expected " + std::to_string(sizeof plan) + " bytes, got " +
                   std::to_string(plan_bytes.size()));
  }
  std::memcpy(&plan, plan_bytes.begin(), sizeof plan);
  if (query.dimensions().size() != 4) return invalid("query: expected rank 4, got " + text_of(query.dimensions()));
  if (bounds.dimensions().size() != 2 || bounds.dimensions()[1] < 1) {
    return invalid("bounds: expected [B, N + 1], got " + text_of(bounds.dimensions()));
  }
  const int64_t b = query.dimensions()[0];
  const int64_t t = query.dimensions()[1];
  const int64_t n = bounds.dimensions()[1] - 1;
  const int64_t hk = plan.key_heads;
  const int64_t hv = plan.value_heads;
  const int64_t dk = plan.key_dim;
  const int64_t dv = plan.value_dim;
  for (const ffi::Error& error : {
           check_dtype("query", query.element_type(), plan.input_dtype),
           check_dtype("key", key.element_type(), plan.input_dtype),
           check_dtype("value", value.element_type(), plan.input_dtype),
           check_dtype("output", output->element_type(), plan.output_dtype),
           check_shape("query", query.dimensions(), {b, t, hk, dk}),
           check_shape("key", key.dimensions(), {b, t, hk, dk}),
           check_shape("value", value.dimensions(), {b, t, hv, dv}),
           check_gates(plan, log_decay.dimensions(), beta.dimensions(), b, t),
           check_shape("state", state.dimensions(), {b * n, hv, dk, dv}),
           check_shape("bounds", bounds.dimensions(), {b, n + 1}),
           check_shape("output", output->dimensions(), {b, t, hv, dv}),
           check_shape("state_out", state_out->dimensions(), {b * n, hv, dk, dv}),
           check_shape("counters", counters->dimensions(), {HJ_COUNTERS}),
       }) {
    if (error.failure()) return error;
  }
  const int64_t scratch_bytes = static_cast<int64_t>(scratch->element_count());
  const Scratch aligned(scratch->typed_data(), scratch_bytes);

  hj_delta_call call = {};
  call.batch = b;
  call.tokens = t;
  call.sequences = n;
  call.query = query.untyped_data();
  call.key = key.untyped_data();
  call.value = value.untyped_data();
  call.log_decay = log_decay.typed_data();
  call.beta = beta.typed_data();
  call.state_in = state.typed_data();
  call.bounds = bounds.typed_data();
  call.output = output->untyped_data();
  call.state_out = state_out->typed_data();
  call.scratch = aligned.pointer();
  call.scratch_bytes = scratch_bytes;
  call.scale = scale;
  call.l2norm_eps = l2norm_eps;
  const hj_parallel parallel = {&pool, run_on_pool};
  const int32_t status = hajax_execute(plan_bytes.begin(), static_cast<int64_t>(plan_bytes.size()), &call, &parallel,
                                       counters->typed_data());
  return error_of(status);
}

XLA_FFI_DEFINE_HANDLER(kDeltaRule, delta_rule,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::ThreadPool>()
                           .Arg<ffi::AnyBuffer>()
                           .Arg<ffi::AnyBuffer>()
                           .Arg<ffi::AnyBuffer>()
                           .Arg<F32>()
                           .Arg<F32>()
                           .Arg<F32>()
                           .Arg<S32>()
                           .Ret<ffi::AnyBuffer>()
                           .Ret<F32>()
                           .Ret<ffi::Buffer<ffi::S64>>()
                           .Ret<ffi::Buffer<ffi::U8>>()
                           .Attr<ffi::Span<const uint8_t>>("plan")
                           .Attr<float>("scale")
                           .Attr<float>("l2norm_eps"));

}  // namespace
}  // namespace hajax::xla

extern "C" void* hajax_xla_delta_rule(void* frame) {
  return hajax::xla::kDeltaRule(static_cast<XLA_FFI_CallFrame*>(frame));
}
