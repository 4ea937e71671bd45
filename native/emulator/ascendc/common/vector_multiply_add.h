// Calls that accumulate into dst, which may be wider than the sources: MulAddDst and Axpy.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_VECTOR_MULTIPLY_ADD_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_VECTOR_MULTIPLY_ADD_H_

#include "native/emulator/ascendc/common/mask.h"

namespace hajax::ascendc {

template <typename T, typename U>
constexpr bool check_accumulate() {
  return (std::is_same_v<T, half> && std::is_same_v<U, half>) ||
         (std::is_same_v<T, float> && (std::is_same_v<U, half> || std::is_same_v<U, float>));
}

template <typename T, typename U>
HAJAX_API void multiply_add(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<U>& src0,
                            const AscendC::LocalTensor<U>& src1, int64_t repeats,
                            const AscendC::BinaryRepeatParams& p) {
  static_assert(check_accumulate<T, U>(), "AscendC::MulAddDst: on " HAJAX_CHIP
                                          " half += half * half, float += half * half, float += float * float");
  vmla(pointer(dst), pointer(src0), pointer(src1), repeats, p.dstBlkStride, p.src0BlkStride, p.src1BlkStride,
       p.dstRepStride, p.src0RepStride, p.src1RepStride);
}

template <typename T, typename U>
HAJAX_API void axpy(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<U>& src, U scalar, int64_t repeats,
                    const AscendC::UnaryRepeatParams& p) {
  static_assert(check_accumulate<T, U>(),
                "AscendC::Axpy: on " HAJAX_CHIP " half += half * half, float += half * half, float += float * float");
  vaxpy(pointer(dst), pointer(src), scalar, repeats, p.dstBlkStride, p.srcBlkStride, p.dstRepStride, p.srcRepStride);
}

}  // namespace hajax::ascendc

namespace AscendC {

// dst += src0 * src1
template <typename T, typename U, bool isSetMask = true>
HAJAX_API void MulAddDst(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1,
                         const uint64_t mask[], int64_t repeatTime, const BinaryRepeatParams& repeatParams) {
  hajax::ascendc::use_mask<T, isSetMask>("MulAddDst", mask);
  hajax::ascendc::multiply_add(dst, src0, src1, repeatTime, repeatParams);
}
template <typename T, typename U, bool isSetMask = true>
HAJAX_API void MulAddDst(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1,
                         uint64_t mask, int64_t repeatTime, const BinaryRepeatParams& repeatParams) {
  hajax::ascendc::use_mask<T, isSetMask>("MulAddDst", mask);
  hajax::ascendc::multiply_add(dst, src0, src1, repeatTime, repeatParams);
}
template <typename T, typename U>
HAJAX_API void MulAddDst(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1,
                         int32_t count) {
  constexpr uint8_t kSource = sizeof(T) == sizeof(U) ? DEFAULT_REPEAT_STRIDE : HALF_DEFAULT_REPEAT_STRIDE;
  hajax::ascendc::begin_count<T>("MulAddDst", count);
  hajax::ascendc::multiply_add(dst, src0, src1, 1, {1, 1, 1, DEFAULT_REPEAT_STRIDE, kSource, kSource});
  hajax::ascendc::end_count();
}

// dst += src * scalar
template <typename T, typename U, bool isSetMask = true>
HAJAX_API void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const U& scalarValue, uint64_t mask[],
                    int64_t repeatTime, const UnaryRepeatParams& repeatParams) {
  hajax::ascendc::use_mask<T, isSetMask>("Axpy", mask);
  hajax::ascendc::axpy(dst, src, scalarValue, repeatTime, repeatParams);
}
template <typename T, typename U, bool isSetMask = true>
HAJAX_API void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const U& scalarValue, uint64_t mask,
                    int64_t repeatTime, const UnaryRepeatParams& repeatParams) {
  hajax::ascendc::use_mask<T, isSetMask>("Axpy", mask);
  hajax::ascendc::axpy(dst, src, scalarValue, repeatTime, repeatParams);
}
template <typename T, typename U>
HAJAX_API void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const U& scalarValue, int32_t count) {
  constexpr uint8_t kSource = sizeof(T) == sizeof(U) ? DEFAULT_REPEAT_STRIDE : HALF_DEFAULT_REPEAT_STRIDE;
  hajax::ascendc::begin_count<T>("Axpy", count);
  hajax::ascendc::axpy(dst, src, scalarValue, 1, {1, 1, DEFAULT_REPEAT_STRIDE, kSource});
  hajax::ascendc::end_count();
}

}  // namespace AscendC

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_VECTOR_MULTIPLY_ADD_H_
