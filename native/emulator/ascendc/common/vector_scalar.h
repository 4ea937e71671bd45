// dst = f(src, scalar), lane by lane: Adds, Muls, Maxs, Mins, LeakyRelu. The scalar has the type of the elements.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_VECTOR_SCALAR_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_VECTOR_SCALAR_H_

#include "native/emulator/ascendc/common/mask.h"

namespace AscendC {

// Without isSetMask the form with `count` runs once in the mask mode and mask that the kernel has set.
#define HAJAX_SCALAR(Name, instruction, ...)                                                                       \
  template <typename T, bool isSetMask = true>                                                                     \
  HAJAX_API void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, uint64_t mask[], \
                      int64_t repeatTime, const UnaryRepeatParams& repeatParams) {                                 \
    static_assert(SupportType<T, __VA_ARGS__>(), "AscendC::" #Name ": on " HAJAX_CHIP " for " #__VA_ARGS__);       \
    hajax::ascendc::use_mask<T, isSetMask>(#Name, mask);                                                           \
    instruction(hajax::ascendc::pointer(dst), hajax::ascendc::pointer(src), scalarValue, repeatTime,               \
                repeatParams.dstBlkStride, repeatParams.srcBlkStride, repeatParams.dstRepStride,                   \
                repeatParams.srcRepStride);                                                                        \
  }                                                                                                                \
  template <typename T, bool isSetMask = true>                                                                     \
  HAJAX_API void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, uint64_t mask,   \
                      int64_t repeatTime, const UnaryRepeatParams& repeatParams) {                                 \
    static_assert(SupportType<T, __VA_ARGS__>(), "AscendC::" #Name ": on " HAJAX_CHIP " for " #__VA_ARGS__);       \
    hajax::ascendc::use_mask<T, isSetMask>(#Name, mask);                                                           \
    instruction(hajax::ascendc::pointer(dst), hajax::ascendc::pointer(src), scalarValue, repeatTime,               \
                repeatParams.dstBlkStride, repeatParams.srcBlkStride, repeatParams.dstRepStride,                   \
                repeatParams.srcRepStride);                                                                        \
  }                                                                                                                \
  template <typename T, bool isSetMask = true>                                                                     \
  HAJAX_API void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, int32_t count) { \
    static_assert(SupportType<T, __VA_ARGS__>(), "AscendC::" #Name ": on " HAJAX_CHIP " for " #__VA_ARGS__);       \
    if constexpr (isSetMask) hajax::ascendc::begin_count<T>(#Name, count);                                         \
    instruction(hajax::ascendc::pointer(dst), hajax::ascendc::pointer(src), scalarValue, 1, 1, 1,                  \
                DEFAULT_REPEAT_STRIDE, DEFAULT_REPEAT_STRIDE);                                                     \
    if constexpr (isSetMask) hajax::ascendc::end_count();                                                          \
  }

HAJAX_SCALAR(Adds, vadds, half, float, int16_t, int32_t)
HAJAX_SCALAR(Muls, vmuls, half, float, int16_t, int32_t)
HAJAX_SCALAR(Maxs, vmaxs, half, float, int16_t, int32_t)
HAJAX_SCALAR(Mins, vmins, half, float, int16_t, int32_t)
HAJAX_SCALAR(LeakyRelu, vlrelu, half, float)
#undef HAJAX_SCALAR

}  // namespace AscendC

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_VECTOR_SCALAR_H_
