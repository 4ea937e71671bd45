// Loops over any number of columns, and the nonlinearities of a layer's elementwise pieces.
#ifndef HAJAX_NATIVE_CPU_KERNELS_COLUMNS_H_
#define HAJAX_NATIVE_CPU_KERNELS_COLUMNS_H_

#include "native/cpu/kernels/elements.h"
#include "native/cpu/kernels/exp.h"

namespace hajax::cpu {
namespace {

template <int32_t V>
struct Constant {
  static constexpr int32_t value = V;
};

// f(width tag, column) over columns [0, columns) in vectors of W and, past the last whole one, one by one.
template <int W, class Body>
HJ_INLINE void over_any_columns(int64_t columns, const Body& body) {
  int64_t c = 0;
  for (; c + W <= columns; c += W) body(Width<W>{}, c);
  for (; c < columns; ++c) body(Width<1>{}, c);
}

// body(tag) with the number of an element type as a constant.
template <class Body>
HJ_INLINE void with_dtype(int32_t dtype, const Body& body) {
  if (dtype == kDtype_float32) return body(Constant<kDtype_float32>{});
  if (dtype == kDtype_bfloat16) return body(Constant<kDtype_bfloat16>{});
  body(Constant<kDtype_float16>{});
}

// 1 / (1 + exp(-x)) without an exponential of a positive number; NaN stays NaN.
template <int W>
HJ_INLINE F<W> sigmoid(F<W> x) {
  const F<W> one = splat<W>(1.0f);
  const F<W> small = exp_nonpositive<W>(x < 0.0f ? x : -x);
  return (x < 0.0f ? small : one) / (one + small);
}

}  // namespace
}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_KERNELS_COLUMNS_H_
