// Floats as sums of bf16 parts, which matrix tiles multiply. Parts are cut off, not rounded: three of them are the
// float itself, and no part of a finite number is infinite.
//
// A left operand is rows of bf16. A right operand is pairs of its rows: a 32-bit element holds two that lie below one
// another.
#ifndef HAJAX_NATIVE_CPU_KERNELS_PARTS_H_
#define HAJAX_NATIVE_CPU_KERNELS_PARTS_H_

#include "native/cpu/kernels/elements.h"

namespace hajax::cpu {
namespace {

constexpr uint32_t kHighHalf = 0xffff0000;

// What a part leaves.
template <int W>
HJ_INLINE F<W> rest_of(F<W> x) {
  using U = typename VecOf<W>::U;
  return x - (F<W>)((U)x & kHighHalf);
}

// Parts of W elements of a row; parts are `stride` elements apart.
template <int W, int Parts>
HJ_INLINE void split_row(F<W> x, uint16_t* to, int64_t stride) {
  using U = typename VecOf<W>::U;
  using Hm = typename VecOf<W>::Hm;
  HJ_UNROLL
  for (int i = 0; i < Parts; ++i) {
    *reinterpret_cast<Hm*>(to + i * stride) = narrow<W>((U)x >> kBf16Shift);
    if (i + 1 < Parts) x = rest_of<W>(x);
  }
}

// Of two vectors that follow one another.
template <int W, int Parts>
HJ_INLINE void split_rows(F<W> x, F<W> y, uint16_t* to, int64_t stride) {
  using U = typename VecOf<W>::U;
  HJ_UNROLL
  for (int i = 0; i < Parts; ++i) {
    store_halves<W, true>(to + i * stride, (U)x, (U)y);
    if (i + 1 < Parts) {
      x = rest_of<W>(x);
      y = rest_of<W>(y);
    }
  }
}

// Parts of W pairs, `first` above `second`.
template <int W, int Parts>
HJ_INLINE void split_pairs(F<W> first, F<W> second, uint32_t* to, int64_t stride) {
  using U = typename VecOf<W>::U;
  HJ_UNROLL
  for (int i = 0; i < Parts; ++i) {
    store<W>(reinterpret_cast<float*>(to + i * stride), (F<W>)((U)first >> kBf16Shift | ((U)second & kHighHalf)));
    if (i + 1 < Parts) {
      first = rest_of<W>(first);
      second = rest_of<W>(second);
    }
  }
}

// f(tag of n) for n in 1 .. 3.
template <int N>
struct PartCount {
  static constexpr int value = N;
};

template <class Body>
HJ_INLINE void with_parts(int64_t n, const Body& body) {
  if (n == 1) {
    body(PartCount<1>{});
  } else if (n == 2) {
    body(PartCount<2>{});
  } else {
    body(PartCount<3>{});
  }
}

}  // namespace
}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_KERNELS_PARTS_H_
