// The XLA FFI handler of the delta-rule operators: buffers and plan to hajax_execute. Only this folder sees XLA's
// headers.
#include <string>

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
  const Operands operands = {query, key, value, log_decay, beta, state, bounds};
  hj_cpu_plan plan;
  int64_t b = 0, t = 0, n = 0;
  if (ffi::Error error = check_operands(plan_bytes, operands, &plan, &b, &t, &n); error.failure()) return error;
  const int64_t hv = plan.value_heads;
  const int64_t dk = plan.key_dim;
  const int64_t dv = plan.value_dim;
  for (const ffi::Error& error : {
           check_dtype("output", output->element_type(), plan.output_dtype),
           check_shape("output", output->dimensions(), {b, t, hv, dv}),
           check_shape("state_out", state_out->dimensions(), {b * n, hv, dk, dv}),
           check_shape("counters", counters->dimensions(), {HJ_COUNTERS}),
       }) {
    if (error.failure()) return error;
  }
  const int64_t scratch_bytes = static_cast<int64_t>(scratch->element_count());
  const Scratch aligned(scratch->typed_data(), scratch_bytes);

  auto call = call_of<hj_delta_call>(operands, b, t, n, aligned, scratch_bytes, scale, l2norm_eps);
  call.output = output->untyped_data();
  call.state_out = state_out->typed_data();
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
