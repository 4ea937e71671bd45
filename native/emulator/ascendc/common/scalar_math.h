// Arithmetic of the scalar unit beyond C++'s: counting bits, conversions. Each is an instruction of S.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_SCALAR_MATH_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_SCALAR_MATH_H_

#include "native/emulator/ascendc/common/constants.h"
#include "native/emulator/ascendc/common/std.h"
#include "native/emulator/instructions/scalar.h"

namespace AscendC {

// Bits of valueIn that equal countValue.
template <int countValue>
HAJAX_API int64_t GetBitCount(uint64_t valueIn) {
  static_assert(countValue == 0 || countValue == 1, "AscendC::GetBitCount: countValue: 0 or 1");
  hajax::emulator::charge_scalar(1);
  return countValue == 1 ? bcnt1(valueIn) : bcnt0(valueIn);
}
template <int countValue>
HAJAX_API int64_t ScalarGetCountOfValue(uint64_t valueIn) {
  return GetBitCount<countValue>(valueIn);
}

HAJAX_API int64_t CountLeadingZero(uint64_t valueIn) {
  hajax::emulator::charge_scalar(1);
  return clz(valueIn);
}
HAJAX_API int64_t ScalarCountLeadingZero(uint64_t valueIn) { return CountLeadingZero(valueIn); }

HAJAX_API int64_t CountBitsCntSameAsSignBit(int64_t valueIn) {
  hajax::emulator::charge_scalar(1);
  return sflbits(valueIn);
}

// Place of the lowest bit that equals countValue; -1 when there is none.
template <int countValue>
HAJAX_API int64_t GetSFFValue(uint64_t valueIn) {
  static_assert(countValue == 0 || countValue == 1, "AscendC::GetSFFValue: countValue: 0 or 1");
  hajax::emulator::charge_scalar(1);
  return countValue == 1 ? sff1(valueIn) : sff0(valueIn);
}
template <int countValue>
HAJAX_API int64_t ScalarGetSFFValue(uint64_t valueIn) {
  return GetSFFValue<countValue>(valueIn);
}

template <typename T, typename U, RoundMode roundMode>
HAJAX_API U Cast(T valueIn) {
  constexpr bool kToHalf = std::is_same_v<U, half> && roundMode == RoundMode::CAST_ODD;
  constexpr bool kToInt =
      std::is_same_v<U, int32_t> && (roundMode == RoundMode::CAST_ROUND || roundMode == RoundMode::CAST_CEIL ||
                                     roundMode == RoundMode::CAST_FLOOR || roundMode == RoundMode::CAST_RINT);
  static_assert(std::is_same_v<T, float> && (kToHalf || kToInt),
                "AscendC::ScalarCast: on " HAJAX_CHIP
                " from float to half by CAST_ODD, or to int32_t by CAST_ROUND, CAST_CEIL, "
                "CAST_FLOOR or CAST_RINT");
  hajax::emulator::charge_scalar(1);
  if constexpr (kToHalf) return conv_f322f16o(valueIn);
  if constexpr (kToInt && roundMode == RoundMode::CAST_ROUND) return conv_f322s32a(valueIn);
  if constexpr (kToInt && roundMode == RoundMode::CAST_CEIL) return conv_f322s32c(valueIn);
  if constexpr (kToInt && roundMode == RoundMode::CAST_FLOOR) return conv_f322s32f(valueIn);
  if constexpr (kToInt && roundMode == RoundMode::CAST_RINT) return conv_f322s32r(valueIn);
}
template <typename T, typename U, RoundMode roundMode>
HAJAX_API U ScalarCast(T valueIn) {
  return Cast<T, U, roundMode>(valueIn);
}

}  // namespace AscendC

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_SCALAR_MATH_H_
