// What the XLA FFI handlers of this library check alike, and how its errors become XLA's.
#ifndef HAJAX_NATIVE_XLA_CHECKS_H_
#define HAJAX_NATIVE_XLA_CHECKS_H_

#include <cstdlib>
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
