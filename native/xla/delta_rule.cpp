// The XLA FFI handler of the delta-rule operators: buffers and plan to hajax_execute. Only this folder sees XLA's
// headers.
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>

#include "hajax/abi/hajax.h"
#include "hajax/abi/plan.h"
#include "native/cpu/lists.h"
#include "native/xla/pool.h"

namespace hajax::xla {
namespace {

namespace ffi = ::xla::ffi;
using F32 = ffi::Buffer<ffi::F32>;
using S32 = ffi::Buffer<ffi::S32>;
using ResultF32 = ffi::ResultBuffer<ffi::F32>;
using ResultS64 = ffi::ResultBuffer<ffi::S64>;
using ResultU8 = ffi::ResultBuffer<ffi::U8>;
using Dims = ffi::Span<const int64_t>;

constexpr uintptr_t kScratchAlignment = 64;

ffi::Error invalid(const std::string& text) { return ffi::Error::InvalidArgument("hajax: " + text); }

std::string text_of(Dims dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(dims[i]);
  return text + "]";
}

ffi::Error check_shape(const char* name, Dims got, std::initializer_list<int64_t> expected) {
  const Dims wanted(expected.begin(), expected.size());
  bool same = got.size() == wanted.size();
  for (size_t i = 0; same && i < wanted.size(); ++i) same = got[i] == wanted[i];
  return same ? ffi::Error::Success()
              : invalid(std::string(name) + ": expected shape " + text_of(wanted) + ", got " + text_of(got));
}

ffi::Error check_dtype(const char* name, ffi::DataType got, int32_t dtype) {
  ffi::DataType wanted = ffi::DataType::INVALID;
  if (dtype == cpu::kDtype_float32) wanted = ffi::DataType::F32;
  if (dtype == cpu::kDtype_bfloat16) wanted = ffi::DataType::BF16;
  if (dtype == cpu::kDtype_float16) wanted = ffi::DataType::F16;
  if (got == wanted && wanted != ffi::DataType::INVALID) return ffi::Error::Success();
  return invalid(std::string(name) + ": expected dtype number " + std::to_string(dtype) +
                 " of dtypes.def, as the plan says, got XLA type " + std::to_string(static_cast<int>(got)));
}

// Scratch is a result buffer; XLA aligns those to 64 bytes today, and where it does not a block of our own stands in.
class Scratch {
 public:
  Scratch(uint8_t* given, int64_t bytes) : pointer_(given) {
    if (reinterpret_cast<uintptr_t>(given) % kScratchAlignment == 0) return;
    const size_t rounded = (static_cast<size_t>(bytes) + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
    own_ = std::aligned_alloc(kScratchAlignment, rounded);
    pointer_ = own_;
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { std::free(own_); }
  void* pointer() const { return pointer_; }

 private:
  void* pointer_;
  void* own_ = nullptr;
};

// What the operator's beta has besides [B, T, Hv]: nothing, or its two strengths; likewise its log decay.
ffi::Error check_gates(const hj_cpu_plan& plan, Dims log_decay, Dims beta, int64_t b, int64_t t) {
  const int64_t hv = plan.value_heads;
  const bool by_channel = plan.header.decay == cpu::kDecay_per_channel;
  ffi::Error error = by_channel ? check_shape("log_decay", log_decay, {b, t, hv, plan.key_dim})
                                : check_shape("log_decay", log_decay, {b, t, hv});
  if (error.failure()) return error;
  return plan.header.strengths == 2 ? check_shape("beta", beta, {b, t, hv, 2}) : check_shape("beta", beta, {b, t, hv});
}

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
  if (status == cpu::kStatus_ok) return ffi::Error::Success();
  const std::string text = std::string("hajax: ") + hajax_last_error();
  if (status == cpu::kStatus_unsupported) return ffi::Error(ffi::ErrorCode::kUnimplemented, text);
  if (status == cpu::kStatus_internal) return ffi::Error(ffi::ErrorCode::kInternal, text);
  return ffi::Error::InvalidArgument(text);
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
