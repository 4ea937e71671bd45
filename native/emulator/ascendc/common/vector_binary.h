// dst = f(src0, src1), lane by lane: Add, Sub, Mul, Div, Max, Min, And, Or, and the same with a ReLU behind.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_VECTOR_BINARY_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_VECTOR_BINARY_H_

#include "native/emulator/ascendc/common/mask.h"

namespace AscendC {

// Every call has three forms: a mask of bits, a number of lanes, or the first `count` elements.
#define HAJAX_BINARY(Name, instruction, ...)                                                                         \
  template <typename T, bool isSetMask = true>                                                                       \
  HAJAX_API void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,             \
                      uint64_t mask[], int64_t repeatTime, const BinaryRepeatParams& repeatParams) {                 \
    static_assert(SupportType<T, __VA_ARGS__>(), "AscendC::" #Name ": on " HAJAX_CHIP " for " #__VA_ARGS__);         \
    hajax::ascendc::use_mask<T, isSetMask>(#Name, mask);                                                             \
    instruction(hajax::ascendc::pointer(dst), hajax::ascendc::pointer(src0), hajax::ascendc::pointer(src1),          \
                repeatTime, repeatParams.dstBlkStride, repeatParams.src0BlkStride, repeatParams.src1BlkStride,       \
                repeatParams.dstRepStride, repeatParams.src0RepStride, repeatParams.src1RepStride);                  \
  }                                                                                                                  \
  template <typename T, bool isSetMask = true>                                                                       \
  HAJAX_API void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,             \
                      uint64_t mask, int64_t repeatTime, const BinaryRepeatParams& repeatParams) {                   \
    static_assert(SupportType<T, __VA_ARGS__>(), "AscendC::" #Name ": on " HAJAX_CHIP " for " #__VA_ARGS__);         \
    hajax::ascendc::use_mask<T, isSetMask>(#Name, mask);                                                             \
    instruction(hajax::ascendc::pointer(dst), hajax::ascendc::pointer(src0), hajax::ascendc::pointer(src1),          \
                repeatTime, repeatParams.dstBlkStride, repeatParams.src0BlkStride, repeatParams.src1BlkStride,       \
                repeatParams.dstRepStride, repeatParams.src0RepStride, repeatParams.src1RepStride);                  \
  }                                                                                                                  \
  template <typename T>                                                                                              \
  HAJAX_API void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,             \
                      int32_t count) {                                                                               \
    static_assert(SupportType<T, __VA_ARGS__>(), "AscendC::" #Name ": on " HAJAX_CHIP " for " #__VA_ARGS__);         \
    hajax::ascendc::begin_count<T>(#Name, count);                                                                    \
    instruction(hajax::ascendc::pointer(dst), hajax::ascendc::pointer(src0), hajax::ascendc::pointer(src1), 1, 1, 1, \
                1, DEFAULT_REPEAT_STRIDE, DEFAULT_REPEAT_STRIDE, DEFAULT_REPEAT_STRIDE);                             \
    hajax::ascendc::end_count();                                                                                     \
  }

HAJAX_BINARY(Add, vadd, half, float, int16_t, int32_t)
HAJAX_BINARY(Sub, vsub, half, float, int16_t, int32_t)
HAJAX_BINARY(Mul, vmul, half, float, int16_t, int32_t)
HAJAX_BINARY(Div, vdiv, half, float)
HAJAX_BINARY(Max, vmax, half, float, int16_t, int32_t)
HAJAX_BINARY(Min, vmin, half, float, int16_t, int32_t)
HAJAX_BINARY(And, vand, int16_t, uint16_t)
HAJAX_BINARY(Or, vor, int16_t, uint16_t)
HAJAX_BINARY(AddRelu, vaddrelu, half, float, int16_t)
HAJAX_BINARY(SubRelu, vsubrelu, half, float, int16_t)
// dst = src0 * dst + src1, without and with a ReLU (which has two names).
HAJAX_BINARY(FusedMulAdd, vmadd, half, float)
HAJAX_BINARY(FusedMulAddRelu, vmaddrelu, half, float)
HAJAX_BINARY(MulAddRelu, vmaddrelu, half, float)
#undef HAJAX_BINARY

}  // namespace AscendC

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_VECTOR_BINARY_H_
