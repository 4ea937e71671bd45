// The XLA FFI handler of the delta-rule operators' gradient: buffers and plan to hajax_execute_backward.
#include <string>

#include "native/xla/checks.h"
#include "native/xla/pool.h"

namespace hajax::xla {
namespace {

using Result = ffi::Result<ffi::AnyBuffer>;
using ResultF32 = ffi::ResultBuffer<ffi::F32>;

ffi::Error backward(ffi::ThreadPool pool, ffi::AnyBuffer query, ffi::AnyBuffer key, ffi::AnyBuffer value, F32 log_decay,
                    F32 beta, F32 state, S32 bounds, ffi::AnyBuffer d_output, F32 d_state, Result d_query, Result d_key,
                    Result d_value, ResultF32 d_log_decay, ResultF32 d_beta, ResultF32 d_state_in,
                    ffi::ResultBuffer<ffi::U8> scratch, ffi::Span<const uint8_t> plan_bytes, float scale,
                    float l2norm_eps) {
  const Operands operands = {query, key, value, log_decay, beta, state, bounds};
  hj_cpu_plan plan;
  int64_t b = 0, t = 0, n = 0;
  if (ffi::Error error = check_operands(plan_bytes, operands, &plan, &b, &t, &n); error.failure()) return error;
  if (plan.key_heads < 1 || plan.group < 1) return invalid("plan: expected positive heads and group");
  const int64_t hk = plan.key_heads;
  const int64_t hv = plan.value_heads;
  const int64_t dk = plan.key_dim;
  const int64_t dv = plan.value_dim;
  const int64_t parts = hv / hk / plan.group;
  const int32_t part = parts == 1 ? plan.input_dtype : static_cast<int32_t>(cpu::kDtype_float32);
  for (const ffi::Error& error : {
           check_dtype("output_cotangent", d_output.element_type(), plan.output_dtype),
           check_dtype("query_gradient", d_query->element_type(), part),
           check_dtype("key_gradient", d_key->element_type(), part),
           check_dtype("value_gradient", d_value->element_type(), plan.input_dtype),
           check_shape("output_cotangent", d_output.dimensions(), {b, t, hv, dv}),
           check_shape("state_cotangent", d_state.dimensions(), {b * n, hv, dk, dv}),
           check_shape("query_gradient", d_query->dimensions(), {b, t, hk, parts, dk}),
           check_shape("key_gradient", d_key->dimensions(), {b, t, hk, parts, dk}),
           check_shape("value_gradient", d_value->dimensions(), {b, t, hv, dv}),
           check_gates(plan, d_log_decay->dimensions(), d_beta->dimensions(), b, t),
           check_shape("state_gradient", d_state_in->dimensions(), {b * n, hv, dk, dv}),
       }) {
    if (error.failure()) return error;
  }
  const int64_t scratch_bytes = static_cast<int64_t>(scratch->element_count());
  const Scratch aligned(scratch->typed_data(), scratch_bytes);

  auto call = call_of<hj_delta_backward>(operands, b, t, n, aligned, scratch_bytes, scale, l2norm_eps);
  call.output_cotangent = d_output.untyped_data();
  call.state_cotangent = d_state.typed_data();
  call.query_gradient = d_query->untyped_data();
  call.key_gradient = d_key->untyped_data();
  call.value_gradient = d_value->untyped_data();
  call.log_decay_gradient = d_log_decay->typed_data();
  call.beta_gradient = d_beta->typed_data();
  call.state_gradient = d_state_in->typed_data();
  const hj_parallel parallel = {&pool, run_on_pool};
  return error_of(
      hajax_execute_backward(plan_bytes.begin(), static_cast<int64_t>(plan_bytes.size()), &call, &parallel, nullptr));
}

XLA_FFI_DEFINE_HANDLER(kBackward, backward,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::ThreadPool>()
                           .Arg<ffi::AnyBuffer>()
                           .Arg<ffi::AnyBuffer>()
                           .Arg<ffi::AnyBuffer>()
                           .Arg<F32>()
                           .Arg<F32>()
                           .Arg<F32>()
                           .Arg<S32>()
                           .Arg<ffi::AnyBuffer>()
                           .Arg<F32>()
                           .Ret<ffi::AnyBuffer>()
                           .Ret<ffi::AnyBuffer>()
                           .Ret<ffi::AnyBuffer>()
                           .Ret<F32>()
                           .Ret<F32>()
                           .Ret<F32>()
                           .Ret<ffi::Buffer<ffi::U8>>()
                           .Attr<ffi::Span<const uint8_t>>("plan")
                           .Attr<float>("scale")
                           .Attr<float>("l2norm_eps"));

}  // namespace
}  // namespace hajax::xla

extern "C" void* hajax_xla_delta_rule_backward(void* frame) {
  return hajax::xla::kBackward(static_cast<XLA_FFI_CallFrame*>(frame));
}
