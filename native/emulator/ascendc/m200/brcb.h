// Brcb: eight elements a repeat, each over a whole block. 310P has no instruction for it: elements are spread over the
// reserve of UB and transposed from there, or pass through the scalar unit when dst's blocks lie apart.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_M200_BRCB_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_M200_BRCB_H_

#include "native/emulator/ascendc/common/duplicate.h"
#include "native/emulator/ascendc/m200/reserve.h"

namespace hajax::ascendc {

inline constexpr int64_t kBrcbElements = 8;  // a repeat

HAJAX_API void spread_32_bits(int32_t* dst, const int32_t* src, int64_t repeats, int64_t dst_step) {
  const Reserve reserve;
  auto* square = reserve.at<uint32_t>(0);  // 8 rows, all of them the eight elements
  set_vector_mask(0, FULL_MASK);
  for (int64_t i = 0; i < repeats; ++i) {
    vadds(reinterpret_cast<int32_t*>(square), src + i * kBrcbElements, int32_t{0}, 1, 1, 0,
          AscendC::DEFAULT_REPEAT_STRIDE, 0);
    pipe_barrier(PIPE_V);
    v4dtrans(reinterpret_cast<uint32_t*>(dst + i * dst_step), square, kBrcbElements, kBrcbElements, true);
    pipe_barrier(PIPE_V);
  }
}

// The transposition makes 16 rows of 16, of which 8 are wanted. The device's API lets it write over what lies behind
// dst, after saving that and before putting it back; here it stays in the reserve, so that nothing behind dst is
// touched. The instructions of a repeat are the same: one vadds stands for the saving, one moves the wanted rows. Odd
// repeats take the upper half of their block, as operands start at whole blocks.
HAJAX_API void spread_16_bits(int16_t* dst, const int16_t* src, int64_t repeats, int64_t dst_step) {
  constexpr int64_t kElements = 256;
  constexpr uint64_t kLower = 0x00FF00FF00FF00FF;  // eight lanes of each block
  constexpr int64_t kStride = AscendC::DEFAULT_REPEAT_STRIDE;
  const Reserve reserve;
  auto* square = reserve.at<int16_t>(1024);
  auto* saved = square + kElements;
  auto* rows = saved + kElements;
  // The other lanes are transposed too, to rows that nobody wants.
  set_vector_mask(FULL_MASK, FULL_MASK);
  vector_dup(square, int16_t{0}, 2, 1, 1, kStride, 0);
  pipe_barrier(PIPE_V);
  for (int64_t i = 0; i < repeats; ++i) {
    const bool upper = i % 2 != 0;
    const uint64_t lanes = upper ? ~kLower : kLower;
    set_vector_mask(lanes, lanes);
    vadds(square, src + i / 2 * 2 * kBrcbElements, int16_t{0}, 2, 1, 0, kStride, 0);
    pipe_barrier(PIPE_V);
    set_vector_mask(FULL_MASK, FULL_MASK);
    vadds(saved, square, int16_t{0}, 1, 1, 1, kStride, kStride);
    vtranspose(reinterpret_cast<uint16_t*>(rows), reinterpret_cast<uint16_t*>(square));
    pipe_barrier(PIPE_V);
    vadds(dst + i * dst_step, rows + (upper ? kElements / 2 : 0), int16_t{0}, 1, 1, 1, kStride, kStride);
    pipe_barrier(PIPE_V);
  }
}

}  // namespace hajax::ascendc

namespace AscendC {

template <typename T>
HAJAX_API void Brcb(const LocalTensor<T>& dst, const LocalTensor<T>& src0, int64_t repeatTime,
                    const BrcbRepeatParams& repeatParams) {
  static_assert(SupportType<T, half, int16_t, uint16_t, float, int32_t, uint32_t>(),
                "AscendC::Brcb: on " HAJAX_CHIP " for half, int16_t, uint16_t, float, int32_t, uint32_t");
  constexpr int64_t kLanes = ONE_BLK_SIZE / sizeof(T);
  hajax::ascendc::expect_range("Brcb", "repeatTime", repeatTime, 0, MAX_REPEAT_TIMES);
  const int64_t step = kLanes * repeatParams.dstRepStride;
  set_mask_norm();
  if (repeatParams.dstBlkStride <= 1) {
    if constexpr (sizeof(T) == 4) {
      hajax::ascendc::spread_32_bits(reinterpret_cast<int32_t*>(hajax::ascendc::pointer(dst)),
                                     reinterpret_cast<int32_t*>(hajax::ascendc::pointer(src0)), repeatTime, step);
    } else {
      hajax::ascendc::spread_16_bits(reinterpret_cast<int16_t*>(hajax::ascendc::pointer(dst)),
                                     reinterpret_cast<int16_t*>(hajax::ascendc::pointer(src0)), repeatTime, step);
    }
  } else {
    hajax::ascendc::set_first_lanes(kLanes);
    hajax::ascendc::order("Brcb", HardEvent::MTE2_S);
    hajax::ascendc::order("Brcb", HardEvent::V_S);
    hajax::ascendc::order("Brcb", HardEvent::MTE3_S);
    for (int64_t i = 0; i < repeatTime * hajax::ascendc::kBrcbElements; ++i) {
      const T value = src0.GetValue(static_cast<uint32_t>(i));
      hajax::ascendc::order("Brcb", HardEvent::S_V);
      const int64_t at = i / hajax::ascendc::kBrcbElements * step +
                         i % hajax::ascendc::kBrcbElements * kLanes * repeatParams.dstBlkStride;
      hajax::ascendc::duplicate(hajax::ascendc::pointer(dst) + at, value, 1, 1, DEFAULT_REPEAT_STRIDE);
    }
  }
  set_vector_mask(FULL_MASK, FULL_MASK);
}

}  // namespace AscendC

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_M200_BRCB_H_
