// Rows of float32, bfloat16 or float16 elements, read and written as float vectors.
#ifndef HAJAX_NATIVE_CPU_KERNELS_ELEMENTS_H_
#define HAJAX_NATIVE_CPU_KERNELS_ELEMENTS_H_

#include "native/cpu/kernels/bf16.h"
#include "native/cpu/lists.h"
#if defined(__F16C__)  // by the flags of the object
#include "native/cpu/kernels/x86_conversions.h"
#endif

namespace hajax::cpu {
namespace {

constexpr int kNarrowest = 8;  // all dims are multiples of this

template <int W>
HJ_INLINE F<W> load_as(int32_t dtype, const void* base, int64_t index) {
  using Hm = typename VecOf<W>::Hm;
  using H = typename VecOf<W>::H;
  if (dtype == kDtype_float32) return load<W>(static_cast<const float*>(base) + index);
  const H bits = *reinterpret_cast<const Hm*>(static_cast<const uint16_t*>(base) + index);
  if (dtype == kDtype_bfloat16) return bf16_to_float<W>(bits);
  return half_to_float<W>(bits);
}

template <int W>
HJ_INLINE void store_as(int32_t dtype, void* base, int64_t index, F<W> v) {
  using Hm = typename VecOf<W>::Hm;
  if (dtype == kDtype_float32) {
    store<W>(static_cast<float*>(base) + index, v);
    return;
  }
  Hm* to = reinterpret_cast<Hm*>(static_cast<uint16_t*>(base) + index);
  *to = dtype == kDtype_bfloat16 ? float_to_bf16<W>(v) : float_to_half<W>(v);
}

// f(width tag, column) over columns [0, columns), a multiple of 8, in vectors of W and, if W is 16, a last one of 8.
template <int W>
struct Width {
  static constexpr int value = W;
};

template <int W, class Body>
HJ_INLINE void over_columns(int64_t columns, const Body& body) {
  int64_t c = 0;
  for (; c + W <= columns; c += W) body(Width<W>{}, c);
  if constexpr (W > kNarrowest) {
    if (c < columns) body(Width<kNarrowest>{}, c);
  }
}

}  // namespace
}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_KERNELS_ELEMENTS_H_
