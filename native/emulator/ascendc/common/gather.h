// Gather: elements from offsets that a vector holds, in bytes. Scatter: to such offsets.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_GATHER_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_GATHER_H_

#include "native/emulator/ascendc/common/mask.h"
#include "native/emulator/instructions/sync.h"

namespace hajax::ascendc {

template <typename T>
using BitsOf = std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>;

template <typename T>
constexpr bool check_gather() {
  return AscendC::SupportType<T, half, int16_t, uint16_t, float, int32_t, uint32_t>();
}

// Fields of the register: where the offsets count from, the repeat stride, the repeats.
template <typename T>
HAJAX_API uint64_t indirect_config(const char* api, const AscendC::LocalTensor<T>& tensor, uint32_t base,
                                   int64_t repeats, int64_t repeat_stride, int stride_bit) {
  expect_range(api, "repeatTime", repeats, 0, AscendC::MAX_REPEAT_TIMES);
  expect_range(api, "repeat stride", repeat_stride, 0, 255);
  expect_range(api, "base offset in bytes", base, 0, int64_t{tensor.GetLength()} - 1);
  expect_multiple(api, "base offset in bytes", base, sizeof(T), "Offsets count whole elements");
  return uint64_t{ub_address(tensor) + base} | static_cast<uint64_t>(repeat_stride) << stride_bit |
         static_cast<uint64_t>(repeats) << 56;
}

template <typename T>
HAJAX_API void gather(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                      const AscendC::LocalTensor<uint32_t>& offsets, uint32_t base, int64_t repeats, int64_t stride) {
  static_assert(check_gather<T>(),
                "AscendC::Gather: on " HAJAX_CHIP " for half, int16_t, uint16_t, float, int32_t, uint32_t");
  vgather(reinterpret_cast<BitsOf<T>*>(pointer(dst)), pointer(offsets),
          indirect_config("Gather", src, base, repeats, stride, 32));
}

template <typename T>
HAJAX_API void scatter(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                       const AscendC::LocalTensor<uint32_t>& offsets, uint32_t base, int64_t repeats, int64_t stride) {
  static_assert(check_gather<T>(),
                "AscendC::Scatter: on " HAJAX_CHIP " for half, int16_t, uint16_t, float, int32_t, uint32_t");
  vscatter(pointer(offsets), reinterpret_cast<BitsOf<T>*>(pointer(src)),
           indirect_config("Scatter", dst, base, repeats, stride, 40));
}

}  // namespace hajax::ascendc

namespace AscendC {

template <typename T>
HAJAX_API void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& srcOffset,
                      uint32_t srcBaseOffset, uint64_t mask, int64_t repeatTime, uint16_t dstRepStride) {
  hajax::ascendc::use_mask<T, true>("Gather", mask);
  hajax::ascendc::gather(dst, src, srcOffset, srcBaseOffset, repeatTime, dstRepStride);
}
template <typename T>
HAJAX_API void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& srcOffset,
                      uint32_t srcBaseOffset, const uint64_t mask[], int64_t repeatTime, uint16_t dstRepStride) {
  hajax::ascendc::use_mask<T, true>("Gather", mask);
  hajax::ascendc::gather(dst, src, srcOffset, srcBaseOffset, repeatTime, dstRepStride);
}
template <typename T>
HAJAX_API void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& srcOffset,
                      uint32_t srcBaseOffset, uint32_t count) {
  constexpr uint32_t kLanes = ONE_REPEAT_BYTE_SIZE / sizeof(T);
  const uint32_t whole = count / kLanes * kLanes;
  if (whole != 0) {
    Gather(dst, src, srcOffset, srcBaseOffset, uint64_t{kLanes}, int64_t{count / kLanes}, DEFAULT_REPEAT_STRIDE);
  }
  if (count != whole) {
    Gather(dst[whole], src, srcOffset[whole], srcBaseOffset, uint64_t{count - whole}, 1, DEFAULT_REPEAT_STRIDE);
  }
}

#if __NPU_ARCH__ == 2002
template <typename T>
HAJAX_API void Scatter(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& dstOffset,
                       uint32_t dstBaseAddr, uint64_t mask, int64_t repeatTime, uint8_t srcRepStride) {
  hajax::ascendc::use_mask<T, true>("Scatter", mask);
  hajax::ascendc::scatter(dst, src, dstOffset, dstBaseAddr, repeatTime, srcRepStride);
}
template <typename T>
HAJAX_API void Scatter(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& dstOffset,
                       uint32_t dstBaseAddr, const uint64_t mask[], int64_t repeatTime, uint8_t srcRepStride) {
  hajax::ascendc::use_mask<T, true>("Scatter", mask);
  hajax::ascendc::scatter(dst, src, dstOffset, dstBaseAddr, repeatTime, srcRepStride);
}
template <typename T>
HAJAX_API void Scatter(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& dstOffset,
                       uint32_t dstBaseAddr, uint32_t count) {
  constexpr uint32_t kLanes = ONE_REPEAT_BYTE_SIZE / sizeof(T);
  const uint32_t whole = count / kLanes * kLanes;
  if (whole != 0) {
    Scatter(dst, src, dstOffset, dstBaseAddr, uint64_t{kLanes}, int64_t{count / kLanes}, DEFAULT_REPEAT_STRIDE);
  }
  if (count != whole) {
    pipe_barrier(PIPE_V);  // both parts may write the same elements
    Scatter(dst, src[whole], dstOffset[whole], dstBaseAddr, uint64_t{count - whole}, 1, DEFAULT_REPEAT_STRIDE);
  }
}
#endif

}  // namespace AscendC

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_GATHER_H_
