// CreateVecIndex: firstValue, firstValue + 1, firstValue + 2, ...
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_M300_VEC_INDEX_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_M300_VEC_INDEX_H_

#include "native/emulator/ascendc/common/mask.h"

namespace hajax::ascendc {

template <typename T>
HAJAX_API void create_index(const AscendC::LocalTensor<T>& dst, const T& first, int64_t repeats, int64_t block_stride,
                            int64_t repeat_stride) {
  static_assert(AscendC::SupportType<T, half, float, int16_t, int32_t>(),
                "AscendC::CreateVecIndex: on " HAJAX_CHIP " for half, float, int16_t, int32_t");
  vci(pointer(dst), first, repeats, block_stride, repeat_stride);
}

}  // namespace hajax::ascendc

namespace AscendC {

template <typename T>
HAJAX_API void CreateVecIndex(LocalTensor<T>& dst, const T& firstValue, uint64_t mask, int64_t repeatTime,
                              uint16_t dstBlkStride, uint8_t dstRepStride) {
  hajax::ascendc::use_mask<T, true>("CreateVecIndex", mask);
  hajax::ascendc::create_index(dst, firstValue, repeatTime, dstBlkStride, dstRepStride);
}
template <typename T>
HAJAX_API void CreateVecIndex(LocalTensor<T>& dst, const T& firstValue, uint64_t mask[], int64_t repeatTime,
                              uint16_t dstBlkStride, uint8_t dstRepStride) {
  hajax::ascendc::use_mask<T, true>("CreateVecIndex", mask);
  hajax::ascendc::create_index(dst, firstValue, repeatTime, dstBlkStride, dstRepStride);
}
template <typename T>
HAJAX_API void CreateVecIndex(LocalTensor<T> dst, const T& firstValue, uint32_t count) {
  hajax::ascendc::begin_count<T>("CreateVecIndex", count);
  hajax::ascendc::create_index(dst, firstValue, 1, DEFAULT_BLK_STRIDE, DEFAULT_REPEAT_STRIDE);
  hajax::ascendc::end_count();
}

}  // namespace AscendC

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_M300_VEC_INDEX_H_
