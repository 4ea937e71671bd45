// fp16 to fp32 and back by bit operations, for CPUs and compilers without a half type. Rounds to nearest even, keeps
// denormals (also when the caller's thread flushes fp32 denormals), infinities and NaN.
#ifndef HAJAX_NATIVE_CPU_KERNELS_HALF_H_
#define HAJAX_NATIVE_CPU_KERNELS_HALF_H_

#include "native/cpu/kernels/vec.h"

namespace hajax::cpu {
namespace {

constexpr uint32_t kHalfMagnitude = 0x7fff;
constexpr uint32_t kHalfMantissa = 0x3ff;
constexpr uint32_t kHalfInfinity = 0x7c00;
constexpr uint32_t kHalfQuietNan = 0x7e00;
constexpr int kHalfMantissaShift = 13;  // 23 - 10 mantissa bits
constexpr uint32_t kHalfRebias = (127u - 15u) << 23;
constexpr float kHalfDenormalUnit = 5.9604644775390625e-8f;  // 2^-24
constexpr float kHalfDenormalScale = 16777216.0f;            // 2^24
constexpr uint32_t kFloatMagnitude = 0x7fffffff;
constexpr uint32_t kFloatInfinity = 0x7f800000;
constexpr uint32_t kFloatHalfOverflow = 0x477ff000;        // 65520: from here on fp16 rounds to infinity
constexpr uint32_t kFloatHalfSmallestNormal = 0x38800000;  // 2^-14
constexpr float kIntegerMagic = 8388608.0f;                // 2^23: adding it rounds to an integer
constexpr uint32_t kIntegerMagicBits = 0x4b000000;

template <int W>
HJ_INLINE F<W> half_to_float(typename VecOf<W>::H half) {
  using U = typename VecOf<W>::U;
  using I = typename VecOf<W>::I;
  const U h = widen<W>(half);
  const U magnitude = h & kHalfMagnitude;
  const U normal = (magnitude << kHalfMantissaShift) + kHalfRebias;
  const U special = normal | kFloatInfinity;
  const U denormal = (U)(__builtin_convertvector((I)magnitude, F<W>) * kHalfDenormalUnit);
  U bits = magnitude >= kHalfInfinity ? special : normal;
  bits = magnitude <= kHalfMantissa ? denormal : bits;
  return (F<W>)(bits | ((h >> 15) << 31));
}

template <int W>
HJ_INLINE typename VecOf<W>::H float_to_half(F<W> x) {
  using U = typename VecOf<W>::U;
  const U bits = (U)x;
  const U magnitude = bits & kFloatMagnitude;
  const U odd = (magnitude >> kHalfMantissaShift) & 1u;
  const U normal = (magnitude - kHalfRebias + ((1u << (kHalfMantissaShift - 1)) - 1u) + odd) >> kHalfMantissaShift;
  const U denormal = (U)((F<W>)magnitude * kHalfDenormalScale + kIntegerMagic) - kIntegerMagicBits;
  U half = magnitude < kFloatHalfSmallestNormal ? denormal : normal;
  half = magnitude >= kFloatHalfOverflow ? U{} + kHalfInfinity : half;
  half = magnitude > kFloatInfinity ? U{} + kHalfQuietNan : half;
  return narrow<W>(half | ((bits >> 31) << 15));
}

}  // namespace
}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_KERNELS_HALF_H_
