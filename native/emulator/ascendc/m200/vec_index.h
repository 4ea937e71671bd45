// CreateVecIndex: firstValue, firstValue + 1, firstValue + 2, ... 310P has no instruction for it: the scalar unit
// writes the first block, and Adds makes each further block and repeat from the one before.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_M200_VEC_INDEX_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_M200_VEC_INDEX_H_

#include "native/emulator/ascendc/common/pipe.h"
#include "native/emulator/ascendc/common/vector_scalar.h"

namespace hajax::ascendc {

template <typename T>
inline constexpr uint32_t kBlockLanes = AscendC::ONE_BLK_SIZE / sizeof(T);
template <typename T>
inline constexpr uint32_t kRepeatLanes = AscendC::ONE_REPEAT_BYTE_SIZE / sizeof(T);

// Computed in float, as on the device: integers above 2^24 are not exact.
template <typename T>
T index_value(const T& first, uint32_t place) {
  return static_cast<T>(static_cast<float>(first) + static_cast<float>(place));
}
template <typename T>
T step_value(uint32_t step) {
  return static_cast<T>(static_cast<float>(step));
}

template <typename T>
HAJAX_API void index_first_block(const AscendC::LocalTensor<T>& dst, const T& first, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) dst.SetValue(i, index_value(first, i));
  order("CreateVecIndex", HardEvent::S_V);
}

// to = from + step
template <typename T, typename Mask>
HAJAX_API void index_step(const AscendC::LocalTensor<T>& to, const AscendC::LocalTensor<T>& from, uint32_t step,
                          Mask mask, uint16_t block_stride) {
  AscendC::UnaryRepeatParams strides;
  strides.dstBlkStride = strides.srcBlkStride = block_stride;
  AscendC::Adds(to, from, step_value<T>(step), mask, 1, strides);
  pipe_barrier(PIPE_V);
}

template <typename T>
constexpr void check_index() {
  static_assert(AscendC::SupportType<T, half, float, int16_t, int32_t>(),
                "AscendC::CreateVecIndex: on " HAJAX_CHIP " for half, float, int16_t, int32_t");
}

}  // namespace hajax::ascendc

namespace AscendC {

template <typename T>
HAJAX_API void CreateVecIndex(LocalTensor<T>& dst, const T& firstValue, uint64_t mask, int64_t repeatTime,
                              uint16_t dstBlkStride, uint8_t dstRepStride) {
  constexpr uint32_t kLanes = hajax::ascendc::kBlockLanes<T>;
  hajax::ascendc::check_index<T>();
  // Below one block the device's own steps read what lies before dst.
  hajax::ascendc::expect_range("CreateVecIndex", "mask, a number of lanes", static_cast<int64_t>(mask), kLanes,
                               hajax::ascendc::kRepeatLanes<T>);
  hajax::ascendc::expect_range("CreateVecIndex", "repeatTime", repeatTime, 1, MAX_REPEAT_TIMES);
  const auto lanes = static_cast<uint32_t>(mask);
  const uint32_t block = dstBlkStride * kLanes;
  const uint32_t blocks = lanes / kLanes;
  hajax::ascendc::index_first_block(dst, firstValue, kLanes);
  for (uint32_t i = 1; i < blocks; ++i) {
    hajax::ascendc::index_step(dst[i * block], dst[(i - 1) * block], kLanes, uint64_t{kLanes}, DEFAULT_BLK_STRIDE);
  }
  if (lanes % kLanes != 0) {
    hajax::ascendc::index_step(dst[blocks * block], dst[(blocks - 1) * block], kLanes, uint64_t{lanes % kLanes},
                               dstBlkStride);
  }
  const uint32_t repeat = dstRepStride * kLanes;
  for (uint32_t i = 1; i < static_cast<uint32_t>(repeatTime); ++i) {
    hajax::ascendc::index_step(dst[i * repeat], dst[(i - 1) * repeat], hajax::ascendc::kRepeatLanes<T>, mask,
                               dstBlkStride);
  }
}

template <typename T>
HAJAX_API void CreateVecIndex(LocalTensor<T>& dst, const T& firstValue, uint64_t mask[], int64_t repeatTime,
                              uint16_t dstBlkStride, uint8_t dstRepStride) {
  constexpr uint32_t kLanes = hajax::ascendc::kBlockLanes<T>;
  hajax::ascendc::check_index<T>();
  hajax::ascendc::expect_range("CreateVecIndex", "repeatTime", repeatTime, 1, MAX_REPEAT_TIMES);
  for (uint32_t i = 0; i < hajax::ascendc::kRepeatLanes<T>; ++i) {
    if ((mask[i / 64] >> i % 64 & 1) == 0) continue;
    dst.SetValue(i / kLanes * kLanes * dstBlkStride + i % kLanes, hajax::ascendc::index_value(firstValue, i));
  }
  hajax::ascendc::order("CreateVecIndex", HardEvent::S_V);
  const uint32_t repeat = dstRepStride * kLanes;
  for (uint32_t i = 1; i < static_cast<uint32_t>(repeatTime); ++i) {
    hajax::ascendc::index_step(dst[i * repeat], dst[(i - 1) * repeat], hajax::ascendc::kRepeatLanes<T>, mask,
                               dstBlkStride);
  }
}

template <typename T>
HAJAX_API void CreateVecIndex(LocalTensor<T> dst, const T& firstValue, uint32_t count) {
  constexpr uint32_t kLanes = hajax::ascendc::kBlockLanes<T>;
  constexpr uint32_t kRepeat = hajax::ascendc::kRepeatLanes<T>;
  hajax::ascendc::check_index<T>();
  hajax::ascendc::index_first_block(dst, firstValue, count < kLanes ? count : kLanes);
  const uint32_t first_repeat = count < kRepeat ? count : kRepeat;
  for (uint32_t at = kLanes; at < first_repeat; at += kLanes) {
    const uint32_t left = first_repeat - at;
    hajax::ascendc::index_step(dst[at], dst[at - kLanes], kLanes, uint64_t{left < kLanes ? left : kLanes},
                               DEFAULT_BLK_STRIDE);
  }
  for (uint32_t at = kRepeat; at < count; at += kRepeat) {
    const uint32_t left = count - at;
    hajax::ascendc::index_step(dst[at], dst[at - kRepeat], kRepeat, uint64_t{left < kRepeat ? left : kRepeat},
                               DEFAULT_BLK_STRIDE);
  }
}

}  // namespace AscendC

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_M200_VEC_INDEX_H_
