// dst = f(src), lane by lane: Abs, Exp, Ln, Reciprocal, Sqrt, Rsqrt, Relu, Not.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_VECTOR_UNARY_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_VECTOR_UNARY_H_

#include "native/emulator/ascendc/common/mask.h"

namespace AscendC {

#define HAJAX_UNARY(Name, instruction, ...)                                                                        \
  template <typename T, bool isSetMask = true>                                                                     \
  HAJAX_API void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint64_t mask[], int64_t repeatTime,   \
                      const UnaryRepeatParams& repeatParams) {                                                     \
    static_assert(SupportType<T, __VA_ARGS__>(), "AscendC::" #Name ": on " HAJAX_CHIP " for " #__VA_ARGS__);       \
    hajax::ascendc::use_mask<T, isSetMask>(#Name, mask);                                                           \
    instruction(hajax::ascendc::pointer(dst), hajax::ascendc::pointer(src), repeatTime, repeatParams.dstBlkStride, \
                repeatParams.srcBlkStride, repeatParams.dstRepStride, repeatParams.srcRepStride);                  \
  }                                                                                                                \
  template <typename T, bool isSetMask = true>                                                                     \
  HAJAX_API void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint64_t mask, int64_t repeatTime,     \
                      const UnaryRepeatParams& repeatParams) {                                                     \
    static_assert(SupportType<T, __VA_ARGS__>(), "AscendC::" #Name ": on " HAJAX_CHIP " for " #__VA_ARGS__);       \
    hajax::ascendc::use_mask<T, isSetMask>(#Name, mask);                                                           \
    instruction(hajax::ascendc::pointer(dst), hajax::ascendc::pointer(src), repeatTime, repeatParams.dstBlkStride, \
                repeatParams.srcBlkStride, repeatParams.dstRepStride, repeatParams.srcRepStride);                  \
  }                                                                                                                \
  template <typename T>                                                                                            \
  HAJAX_API void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, int32_t count) {                       \
    static_assert(SupportType<T, __VA_ARGS__>(), "AscendC::" #Name ": on " HAJAX_CHIP " for " #__VA_ARGS__);       \
    hajax::ascendc::begin_count<T>(#Name, count);                                                                  \
    instruction(hajax::ascendc::pointer(dst), hajax::ascendc::pointer(src), 1, 1, 1, DEFAULT_REPEAT_STRIDE,        \
                DEFAULT_REPEAT_STRIDE);                                                                            \
    hajax::ascendc::end_count();                                                                                   \
  }

HAJAX_UNARY(Abs, vabs, half, float)
HAJAX_UNARY(Exp, vexp, half, float)
HAJAX_UNARY(Ln, vln, half, float)
HAJAX_UNARY(Reciprocal, vrec, half, float)
HAJAX_UNARY(Sqrt, vsqrt, half, float)
HAJAX_UNARY(Rsqrt, vrsqrt, half, float)
HAJAX_UNARY(Relu, vrelu, half, float, int32_t)
HAJAX_UNARY(Not, vnot, int16_t, uint16_t)
#undef HAJAX_UNARY

}  // namespace AscendC

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_VECTOR_UNARY_H_
