// Duplicate: one value into every element.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_DUPLICATE_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_DUPLICATE_H_

#include "native/emulator/ascendc/common/mask.h"

namespace hajax::ascendc {

template <typename T>
HAJAX_API void duplicate(T* dst, T value, int64_t repeats, int64_t block_stride, int64_t repeat_stride) {
  static_assert(AscendC::SupportType<T, half, int16_t, uint16_t, int32_t, uint32_t, float>(),
                "AscendC::Duplicate: on " HAJAX_CHIP " for half, int16_t, uint16_t, int32_t, uint32_t, float");
  vector_dup(dst, value, repeats, block_stride, 1, repeat_stride, 0);
}

}  // namespace hajax::ascendc

namespace AscendC {

template <typename T, bool isSetMask = true>
HAJAX_API void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, uint64_t mask, int64_t repeatTime,
                         uint16_t dstBlockStride, uint8_t dstRepeatStride) {
  hajax::ascendc::use_mask<T, isSetMask>("Duplicate", mask);
  hajax::ascendc::duplicate(hajax::ascendc::pointer(dst), scalarValue, repeatTime, dstBlockStride, dstRepeatStride);
}
template <typename T, bool isSetMask = true>
HAJAX_API void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, uint64_t mask[], int64_t repeatTime,
                         uint16_t dstBlockStride, uint8_t dstRepeatStride) {
  hajax::ascendc::use_mask<T, isSetMask>("Duplicate", mask);
  hajax::ascendc::duplicate(hajax::ascendc::pointer(dst), scalarValue, repeatTime, dstBlockStride, dstRepeatStride);
}
template <typename T>
HAJAX_API void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, const int32_t& count) {
  hajax::ascendc::begin_count<T>("Duplicate", count);
  hajax::ascendc::duplicate(hajax::ascendc::pointer(dst), scalarValue, 1, DEFAULT_BLK_STRIDE, DEFAULT_REPEAT_STRIDE);
  hajax::ascendc::end_count();
}

}  // namespace AscendC

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_DUPLICATE_H_
