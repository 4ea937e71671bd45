// Transpose: 16 x 16 elements of 16 bits, or channels against pixels. TransDataTo5HD: sixteen blocks to sixteen blocks.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_TRANSPOSE_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_TRANSPOSE_H_

#include "native/emulator/ascendc/common/mask.h"
#include "native/emulator/ascendc/common/refuse.h"
#include "native/emulator/instructions/move.h"

namespace hajax::ascendc {

HAJAX_API void set_block_addresses(const uint64_t dst[], const uint64_t src[]) {
  set_va_reg_sb(VA0, dst);
  set_va_reg_sb(VA1, dst + AscendC::VA_REG_ARRAY_LEN);
  set_va_reg_sb(VA2, src);
  set_va_reg_sb(VA3, src + AscendC::VA_REG_ARRAY_LEN);
}

template <typename T>
HAJAX_API void transpose_blocks(const uint64_t dst[], const uint64_t src[], const AscendC::TransDataTo5HDParams& p) {
  static_assert(AscendC::SupportType<T, int8_t, uint8_t, half, int16_t, uint16_t, float, int32_t, uint32_t>(),
                "AscendC::TransDataTo5HD: on " HAJAX_CHIP " for integers of 8 to 32 bits, half, float");
  set_block_addresses(dst, src);
  if constexpr (sizeof(T) == 1) {
    scatter_vnchwconv_b8(VA0, VA2, p.repeatTimes, p.dstRepStride, p.srcRepStride, p.dstHighHalf, p.srcHighHalf);
  } else {
    if (p.dstHighHalf || p.srcHighHalf) {
      kernel_fault(
          Check::unsupported,
          "TransDataTo5HD: dstHighHalf and srcHighHalf: expected false for elements of 16 or 32 bits, got true");
    }
    if constexpr (sizeof(T) == 2) {
      scatter_vnchwconv_b16(VA0, VA2, p.repeatTimes, p.dstRepStride, p.srcRepStride);
    } else {
      scatter_vnchwconv_b32(VA0, VA2, p.repeatTimes, p.dstRepStride, p.srcRepStride);
    }
  }
}

}  // namespace hajax::ascendc

namespace AscendC {

template <typename T>
HAJAX_API void Transpose(const LocalTensor<T>& dst, const LocalTensor<T>& src) {
  static_assert(SupportType<T, half, int16_t, uint16_t>(),
                "AscendC::Transpose: on " HAJAX_CHIP " for half, int16_t, uint16_t");
  vtranspose(reinterpret_cast<uint16_t*>(hajax::ascendc::pointer(dst)),
             reinterpret_cast<uint16_t*>(hajax::ascendc::pointer(src)));
}

template <typename T>
HAJAX_API void TransDataTo5HD(uint64_t dstList[NCHW_CONV_ADDR_LIST_SIZE], uint64_t srcList[NCHW_CONV_ADDR_LIST_SIZE],
                              const TransDataTo5HDParams& nchwconvParams) {
  hajax::ascendc::transpose_blocks<T>(dstList, srcList, nchwconvParams);
}
template <typename T>
HAJAX_API void TransDataTo5HD(const LocalTensor<T> (&dstList)[NCHW_CONV_ADDR_LIST_SIZE],
                              const LocalTensor<T> (&srcList)[NCHW_CONV_ADDR_LIST_SIZE],
                              const TransDataTo5HDParams& nchwconvParams) {
  uint64_t dst[NCHW_CONV_ADDR_LIST_SIZE];
  uint64_t src[NCHW_CONV_ADDR_LIST_SIZE];
  for (int i = 0; i < NCHW_CONV_ADDR_LIST_SIZE; ++i) {
    dst[i] = dstList[i].GetPhyAddr();
    src[i] = srcList[i].GetPhyAddr();
  }
  hajax::ascendc::transpose_blocks<T>(dst, src, nchwconvParams);
}
// With the addresses in UB.
template <typename T>
void TransDataTo5HD(const LocalTensor<uint64_t>&, const LocalTensor<uint64_t>&, const TransDataTo5HDParams&) {
  static_assert(
      hajax::ascendc::never<T>,
      "AscendC::TransDataTo5HD: addresses in a tensor: not emulated yet: use arrays of addresses or of tensors");
}

#if __NPU_ARCH__ == 2002
template <typename T>
HAJAX_API void Transpose(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>&,
                         const TransposeParamsExt& transposeParams) {
  static_assert(SupportType<T, int8_t, uint8_t, half, int16_t, uint16_t, float, int32_t, uint32_t>(),
                "AscendC::Transpose: on " HAJAX_CHIP " for integers of 8 to 32 bits, half, float");
  using Bits = std::conditional_t<sizeof(T) == 1, uint8_t, std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>>;
  const TransposeParamsExt& p = transposeParams;
  Bits* to = reinterpret_cast<Bits*>(hajax::ascendc::pointer(dst));
  const Bits* from = reinterpret_cast<const Bits*>(hajax::ascendc::pointer(src));
  const int64_t pixels = int64_t{p.hSize} * p.wSize;
  const int64_t image = pixels * p.cSize;
  if (p.transposeType == TransposeType::TRANSPOSE_NCHW2NHWC || p.transposeType == TransposeType::TRANSPOSE_NHWC2NCHW) {
    if (p.cSize == 1) {
      const int64_t bytes = image * p.nSize * static_cast<int64_t>(sizeof(T));
      hajax::ascendc::expect_multiple("Transpose", "bytes of a tensor with one channel", bytes, ONE_BLK_SIZE,
                                      "Pad the images");
      copy_ubuf_to_ubuf(to, from, 0, 1, bytes / ONE_BLK_SIZE, 0, 0);
      return;
    }
    const bool channels_last = p.transposeType == TransposeType::TRANSPOSE_NHWC2NCHW;
    for (int64_t i = 0; i < p.nSize; ++i) v4dtrans(to + i * image, from + i * image, pixels, p.cSize, channels_last);
    return;
  }
  if (p.transposeType == TransposeType::TRANSPOSE_ND2ND_B16 && p.hSize == 16 && p.wSize == 16) {
    if constexpr (sizeof(T) == 2) {
      vtranspose(to, from);
      return;
    }
  }
  hajax::ascendc::kernel_fault(hajax::ascendc::Check::unsupported,
                               "Transpose: transposeType: " HAJAX_CHIP
                               ": expected TRANSPOSE_NCHW2NHWC, TRANSPOSE_NHWC2NCHW, "
                               "or TRANSPOSE_ND2ND_B16 of 16 x 16 elements of 16 bits, got another");
}
#endif

}  // namespace AscendC

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_TRANSPOSE_H_
