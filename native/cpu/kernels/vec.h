// Vectors of W floats through the compilers' vector extensions. Kernel headers live in an unnamed namespace: what an
// ISA object compiles must stay inside it, else the linker could hand code for a newer CPU to callers that run on an
// older one.
#ifndef HAJAX_NATIVE_CPU_KERNELS_VEC_H_
#define HAJAX_NATIVE_CPU_KERNELS_VEC_H_

#include <stdint.h>

#define HJ_INLINE inline __attribute__((always_inline))
#define HJ_INLINE_LAMBDA __attribute__((always_inline))
#define HJ_SLICE static __attribute__((noinline))  // shared by many places, else code would not fit its cache
#if defined(__clang__)
#define HJ_UNROLL _Pragma("clang loop unroll(full)")
#else
#define HJ_UNROLL _Pragma("GCC unroll 16")
#endif

namespace hajax::cpu {
namespace {

template <int W>
struct VecOf {
  typedef float F __attribute__((vector_size(W * 4)));
  typedef int32_t I __attribute__((vector_size(W * 4)));
  typedef uint32_t U __attribute__((vector_size(W * 4)));
  typedef uint16_t H __attribute__((vector_size(W * 2)));
  // The same in memory, at any element's address.
  typedef float Fm __attribute__((vector_size(W * 4), aligned(4), may_alias));
  typedef uint16_t Hm __attribute__((vector_size(W * 2), aligned(2), may_alias));
};
template <int W>
using F = typename VecOf<W>::F;

template <int W>
HJ_INLINE F<W> load(const float* p) {
  return *reinterpret_cast<const typename VecOf<W>::Fm*>(p);
}

template <int W>
HJ_INLINE void store(float* p, F<W> v) {
  *reinterpret_cast<typename VecOf<W>::Fm*>(p) = v;
}

template <int W>
HJ_INLINE F<W> splat(float s) {
  return s - F<W>{};  // s - 0 is s for every s, -0 included; s + 0 is not
}

// Unsigned 16-bit integers to 32 bits, and the low halves of such.
template <int W>
HJ_INLINE typename VecOf<W>::U widen(typename VecOf<W>::H x) {
  return __builtin_convertvector(x, typename VecOf<W>::U);
}
template <int W>
HJ_INLINE typename VecOf<W>::H narrow(typename VecOf<W>::U x) {
  return __builtin_convertvector(x, typename VecOf<W>::H);
}

// The high or the low halves of the lanes of a, then of b, to memory.
template <int W, bool High>
HJ_INLINE void store_halves(uint16_t* to, typename VecOf<W>::U a, typename VecOf<W>::U b) {
  using Hm = typename VecOf<W>::Hm;
  constexpr int kShift = High ? 16 : 0;
  *reinterpret_cast<Hm*>(to) = narrow<W>(a >> kShift);
  *reinterpret_cast<Hm*>(to + W) = narrow<W>(b >> kShift);
}

// 0, 1, 2, ... W - 1
template <int W>
HJ_INLINE typename VecOf<W>::I iota() {
  typename VecOf<W>::I v{};
  HJ_UNROLL
  for (int i = 0; i < W; ++i) v[i] = i;
  return v;
}

// Sum of the lanes, always in the same order.
template <int W>
HJ_INLINE float sum(F<W> v) {
  float lanes[W];
  store<W>(lanes, v);
  HJ_UNROLL
  for (int half = W / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

// The lanes of one half of a vector of sixteen.
HJ_INLINE F<8> low_half(F<16> v) {
  F<8> half;
  __builtin_memcpy(&half, &v, sizeof half);
  return half;
}
HJ_INLINE F<8> high_half(F<16> v) {
  F<8> half;
  __builtin_memcpy(&half, reinterpret_cast<const char*>(&v) + sizeof half, sizeof half);
  return half;
}

HJ_INLINE int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

}  // namespace
}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_KERNELS_VEC_H_
