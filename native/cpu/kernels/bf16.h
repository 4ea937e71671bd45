// bf16 to fp32 and back: rounds to nearest even, keeps infinities and NaN.
#ifndef HAJAX_NATIVE_CPU_KERNELS_BF16_H_
#define HAJAX_NATIVE_CPU_KERNELS_BF16_H_

#include "native/cpu/kernels/half.h"

namespace hajax::cpu {
namespace {

constexpr int kBf16Shift = 16;
constexpr uint32_t kBf16RoundBias = 0x7fff;
constexpr uint32_t kBf16QuietBit = 0x40;

template <int W>
HJ_INLINE F<W> bf16_to_float(typename VecOf<W>::H x) {
  return (F<W>)(widen<W>(x) << kBf16Shift);
}

template <int W>
HJ_INLINE typename VecOf<W>::H float_to_bf16(F<W> x) {
  using U = typename VecOf<W>::U;
  const U bits = (U)x;
  const U rounded = (bits + kBf16RoundBias + ((bits >> kBf16Shift) & 1u)) >> kBf16Shift;
  const U nan = (bits >> kBf16Shift) | kBf16QuietBit;
  return narrow<W>((bits & kFloatMagnitude) > kFloatInfinity ? nan : rounded);
}

}  // namespace
}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_KERNELS_BF16_H_
