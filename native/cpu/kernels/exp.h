// exp of W floats that are not positive: within 1 ulp, exactly 0 where the result would be denormal, for -inf too; NaN
// stays NaN.
#ifndef HAJAX_NATIVE_CPU_KERNELS_EXP_H_
#define HAJAX_NATIVE_CPU_KERNELS_EXP_H_

#include "native/cpu/kernels/vec.h"

namespace hajax::cpu {
namespace {

constexpr float kExpLowest = -87.33f;    // below, the result is denormal: flushed
constexpr double kExpVanished = -200.0;  // a sum clamped here is 0 still
constexpr float kExpHighest = 88.0f;     // only a guard: log decays are not positive
constexpr float kLog2E = 1.44269504f;
constexpr float kLn2High = 0.693145752f;  // its low bits are 0, so n * kLn2High is exact
constexpr float kLn2Low = 1.4286068e-6f;
constexpr float kRoundMagic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer held in the low bits
constexpr int32_t kRoundMagicBits = 0x4b400000;
constexpr int32_t kExponentBias = 127;
constexpr int kMantissaBits = 23;

// (e^r - 1 - r) / r^2 on |r| <= ln(2) / 2: relative minimax by reweighted least squares, error 3.1e-9 before rounding.
constexpr float kExp2 = 0.49999994f;
constexpr float kExp3 = 0.16666521f;
constexpr float kExp4 = 0.04166839f;
constexpr float kExp5 = 0.008368717f;
constexpr float kExp6 = 0.0013814599f;

template <int W>
HJ_INLINE F<W> exp_nonpositive(F<W> x) {
  using I = typename VecOf<W>::I;
  const F<W> lowest = splat<W>(kExpLowest);
  const F<W> highest = splat<W>(kExpHighest);
  const I vanishes = x < lowest;
  x = vanishes ? lowest : x;  // in this form a NaN passes
  x = x > highest ? highest : x;
  const F<W> shifted = x * kLog2E + kRoundMagic;
  const F<W> n = shifted - kRoundMagic;
  F<W> r = x - n * kLn2High;
  r = r - n * kLn2Low;
  F<W> p = r * kExp6 + kExp5;
  p = p * r + kExp4;
  p = p * r + kExp3;
  p = p * r + kExp2;
  p = p * r;
  p = p * r + r + 1.0f;
  const I power = ((I)shifted - kRoundMagicBits + kExponentBias) << kMantissaBits;
  p = p * (F<W>)power;
  return vanishes ? F<W>{} : p;
}

}  // namespace
}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_KERNELS_EXP_H_
