// The XLA FFI handler of libhajax_sim: buffers and plan of a delta-rule operator to the emulated chip. Operands and
// results are those of the CPU's handler (delta_rule.cpp); a scratch result behind them is left alone.
#include <cstring>
#include <initializer_list>
#include <string>

#include "hajax/abi/hajax.h"
#include "hajax/abi/plan.h"
#include "hajax/abi/sim.h"
#include "native/ascend/host/lists.h"
#include "native/sim/record.h"
#include "xla/ffi/api/ffi.h"

namespace hajax::xla {
namespace {

namespace ffi = ::xla::ffi;
namespace host = ascend::host;
using F32 = ffi::Buffer<ffi::F32>;
using S32 = ffi::Buffer<ffi::S32>;
using Dims = ffi::Span<const int64_t>;
using List = std::initializer_list<int64_t>;

ffi::Error invalid(const std::string& text) { return ffi::Error::InvalidArgument("hajax: " + text); }

std::string text_of(Dims dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(dims[i]);
  return text + "]";
}

ffi::Error check_shape(const char* name, Dims got, const List& expected) {
  const Dims wanted(expected.begin(), expected.size());
  bool same = got.size() == wanted.size();
  for (size_t i = 0; same && i < wanted.size(); ++i) same = got[i] == wanted[i];
  return same ? ffi::Error::Success()
              : invalid(std::string(name) + ": expected shape " + text_of(wanted) + ", got " + text_of(got));
}

ffi::Error check_dtype(const char* name, ffi::DataType got, int32_t dtype) {
  ffi::DataType wanted = ffi::DataType::INVALID;
  if (dtype == host::kDtype_float32) wanted = ffi::DataType::F32;
  if (dtype == host::kDtype_float16) wanted = ffi::DataType::F16;
  if (got == wanted && wanted != ffi::DataType::INVALID) return ffi::Error::Success();
  return invalid(std::string(name) + ": expected float16 or float32 as number " + std::to_string(dtype) +
                 " of dtypes.def says, got XLA type " + std::to_string(static_cast<int>(got)));
}

ffi::Error delta_rule(ffi::AnyBuffer query, ffi::AnyBuffer key, ffi::AnyBuffer value, F32 log_decay, F32 beta,
                      F32 state, S32 bounds, ffi::Result<ffi::AnyBuffer> output,
                      ffi::Result<ffi::Buffer<ffi::F32>> state_out, ffi::Result<ffi::Buffer<ffi::S64>> counters,
                      ffi::RemainingRets, ffi::Span<const uint8_t> plan_bytes, float scale, float l2norm_eps) {
  hj_npu_plan plan;
  if (plan_bytes.size() < sizeof plan) {
    return invalid("plan: size: expected at least " + std::to_string(sizeof plan) + " bytes, got " +
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
  const List by_head = {b, t, hv};
  const List by_channel = {b, t, hv, dk};
  const List by_strength = {b, t, hv, 2};
  const bool channels = plan.header.decay == host::kDecay_per_channel;
  for (const ffi::Error& error : {
           check_dtype("query", query.element_type(), plan.input_dtype),
           check_dtype("key", key.element_type(), plan.input_dtype),
           check_dtype("value", value.element_type(), plan.input_dtype),
           check_dtype("output", output->element_type(), plan.output_dtype),
           check_shape("query", query.dimensions(), {b, t, hk, dk}),
           check_shape("key", key.dimensions(), {b, t, hk, dk}),
           check_shape("value", value.dimensions(), {b, t, hv, dv}),
           check_shape("log_decay", log_decay.dimensions(), channels ? by_channel : by_head),
           check_shape("beta", beta.dimensions(), plan.header.strengths == 2 ? by_strength : by_head),
           check_shape("state", state.dimensions(), {b * n, hv, dk, dv}),
           check_shape("bounds", bounds.dimensions(), {b, n + 1}),
           check_shape("output", output->dimensions(), {b, t, hv, dv}),
           check_shape("state_out", state_out->dimensions(), {b * n, hv, dk, dv}),
           check_shape("counters", counters->dimensions(), {HJ_COUNTERS}),
       }) {
    if (error.failure()) return error;
  }
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
  call.scale = scale;
  call.l2norm_eps = l2norm_eps;
  const int32_t status =
      sim::execute_recorded(plan_bytes.begin(), static_cast<int64_t>(plan_bytes.size()), call, counters->typed_data());
  if (status == host::kStatus_ok) return ffi::Error::Success();
  const std::string text = std::string("hajax: ") + hajax_sim_last_error();
  if (status == host::kStatus_unsupported) return ffi::Error(ffi::ErrorCode::kUnimplemented, text);
  if (status == host::kStatus_internal) return ffi::Error(ffi::ErrorCode::kInternal, text);
  return ffi::Error::InvalidArgument(text);
}

XLA_FFI_DEFINE_HANDLER(kDeltaRule, delta_rule,
                       ffi::Ffi::Bind()
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
                           .RemainingRets()
                           .Attr<ffi::Span<const uint8_t>>("plan")
                           .Attr<float>("scale")
                           .Attr<float>("l2norm_eps"));

}  // namespace
}  // namespace hajax::xla

extern "C" void* hajax_sim_xla_delta_rule(void* frame) {
  return hajax::xla::kDeltaRule(static_cast<XLA_FFI_CallFrame*>(frame));
}
