// What the XLA FFI handlers of this library check alike, and how its errors become XLA's.
#ifndef HAJAX_NATIVE_XLA_CHECKS_H_
#define HAJAX_NATIVE_XLA_CHECKS_H_

#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>

#include "hajax/abi/hajax.h"
#include "hajax/abi/plan.h"
#include "native/cpu/lists.h"
#include "xla/ffi/api/ffi.h"

namespace hajax::xla {

namespace ffi = ::xla::ffi;
using F32 = ffi::Buffer<ffi::F32>;
using S32 = ffi::Buffer<ffi::S32>;
using Dims = ffi::Span<const int64_t>;

constexpr uintptr_t kScratchAlignment = 64;

inline ffi::Error invalid(const std::string& text) { return ffi::Error::InvalidArgument("hajax: " + text); }

inline std::string text_of(Dims dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(dims[i]);
  return text + "]";
}

inline ffi::Error check_shape(const char* name, Dims got, std::initializer_list<int64_t> expected) {
  const Dims wanted(expected.begin(), expected.size());
  bool same = got.size() == wanted.size();
  for (size_t i = 0; same && i < wanted.size(); ++i) same = got[i] == wanted[i];
  return same ? ffi::Error::Success()
              : invalid(std::string(name) + ": expected shape " + text_of(wanted) + ", got " + text_of(got));
}

inline ffi::Error check_dtype(const char* name, ffi::DataType got, int32_t dtype) {
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
inline ffi::Error check_gates(const hj_cpu_plan& plan, Dims log_decay, Dims beta, int64_t b, int64_t t) {
  const int64_t hv = plan.value_heads;
  const bool by_channel = plan.header.decay == cpu::kDecay_per_channel;
  ffi::Error error = by_channel ? check_shape("log_decay", log_decay, {b, t, hv, plan.key_dim})
                                : check_shape("log_decay", log_decay, {b, t, hv});
  if (error.failure()) return error;
  return plan.header.strengths == 2 ? check_shape("beta", beta, {b, t, hv, 2}) : check_shape("beta", beta, {b, t, hv});
}

// Plan and operands of the operator or its gradient.
struct Operands {
  const ffi::AnyBuffer &query, &key, &value;
  const F32 &log_decay, &beta, &state;
  const S32& bounds;
};

// Reads a plan's bytes, and B, T and N of the operands, and holds the operands against them.
inline ffi::Error check_operands(ffi::Span<const uint8_t> bytes, const Operands& of, hj_cpu_plan* plan, int64_t* b,
                                 int64_t* t, int64_t* n) {
  if (bytes.size() != sizeof *plan) {
    return invalid("plan: size: expected " + std::to_string(sizeof *plan) + " bytes, got " +
                   std::to_string(bytes.size()));
  }
  std::memcpy(plan, bytes.begin(), sizeof *plan);
  const Dims query = of.query.dimensions(), bounds = of.bounds.dimensions();
  if (query.size() != 4) return invalid("query: expected rank 4, got " + text_of(query));
  if (bounds.size() != 2 || bounds[1] < 1) return invalid("bounds: expected [B, N + 1], got " + text_of(bounds));
  *b = query[0];
  *t = query[1];
  *n = bounds[1] - 1;
  const int64_t hk = plan->key_heads, hv = plan->value_heads, dk = plan->key_dim, dv = plan->value_dim;
  for (const ffi::Error& error : {
           check_dtype("query", of.query.element_type(), plan->input_dtype),
           check_dtype("key", of.key.element_type(), plan->input_dtype),
           check_dtype("value", of.value.element_type(), plan->input_dtype),
           check_shape("query", query, {*b, *t, hk, dk}),
           check_shape("key", of.key.dimensions(), {*b, *t, hk, dk}),
           check_shape("value", of.value.dimensions(), {*b, *t, hv, dv}),
           check_gates(*plan, of.log_decay.dimensions(), of.beta.dimensions(), *b, *t),
           check_shape("state", of.state.dimensions(), {*b * *n, hv, dk, dv}),
           check_shape("bounds", bounds, {*b, *n + 1}),
       }) {
    if (error.failure()) return error;
  }
  return ffi::Error::Success();
}

// What hj_delta_call and hj_delta_backward have alike.
template <class Call>
Call call_of(const Operands& of, int64_t b, int64_t t, int64_t n, const Scratch& scratch, int64_t scratch_bytes,
             float scale, float l2norm_eps) {
  Call call = {};
  call.batch = b;
  call.tokens = t;
  call.sequences = n;
  call.query = of.query.untyped_data();
  call.key = of.key.untyped_data();
  call.value = of.value.untyped_data();
  call.log_decay = of.log_decay.typed_data();
  call.beta = of.beta.typed_data();
  call.state_in = of.state.typed_data();
  call.bounds = of.bounds.typed_data();
  call.scratch = scratch.pointer();
  call.scratch_bytes = scratch_bytes;
  call.scale = scale;
  call.l2norm_eps = l2norm_eps;
  return call;
}

// Of a status that the C interface returned.
inline ffi::Error error_of(int32_t status) {
  if (status == cpu::kStatus_ok) return ffi::Error::Success();
  const std::string text = std::string("hajax: ") + hajax_last_error();
  if (status == cpu::kStatus_unsupported) return ffi::Error(ffi::ErrorCode::kUnimplemented, text);
  if (status == cpu::kStatus_internal) return ffi::Error(ffi::ErrorCode::kInternal, text);
  return ffi::Error::InvalidArgument(text);
}

}  // namespace hajax::xla

#endif  // HAJAX_NATIVE_XLA_CHECKS_H_
