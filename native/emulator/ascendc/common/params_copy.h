// Parameters of DataCopy. Lengths and gaps count blocks of 32 bytes unless the call says otherwise.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_PARAMS_COPY_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_PARAMS_COPY_H_

#include "native/emulator/ascendc/common/constants.h"

// How fixpipe, which is not emulated, scales results.
enum QuantMode_t {
  NoQuant = 0,
  F322F16,
  F322BF16,
  DEQF16,
  VDEQF16,
  QF322B8_PRE,
  VQF322B8_PRE,
  REQ8,
  VREQ8,
};

namespace AscendC {

struct DataCopyParams {
  DataCopyParams() {}
  DataCopyParams(uint16_t count, uint16_t length, uint16_t src_gap, uint16_t dst_gap)
      : blockCount(count), blockLen(length), srcGap(src_gap), dstGap(dst_gap) {}

  uint16_t blockCount = DEFAULT_DATA_COPY_NBURST;
  uint16_t blockLen = 0;
  union {
    uint16_t srcGap = 0;
    uint16_t srcStride;  // the older name
  };
  union {
    uint16_t dstGap = 0;
    uint16_t dstStride;
  };
};

struct DataCopyEnhancedParams {
  DataCopyEnhancedParams() = default;
  DataCopyEnhancedParams(BlockMode mode, DeqScale scale, uint64_t scale_value, uint8_t store_mode, bool relu,
                         pad_t pad_mode, uint64_t pad_value)
      : blockMode(mode),
        deqScale(scale),
        deqValue(scale_value),
        sidStoreMode(store_mode),
        isRelu(relu),
        padMode(pad_mode),
        padValue(pad_value) {}

  BlockMode blockMode = BlockMode::BLOCK_MODE_NORMAL;
  DeqScale deqScale = DeqScale::DEQ_NONE;
  uint64_t deqValue = 0;
  uint8_t sidStoreMode = 0;
  bool isRelu = false;
  pad_t padMode = pad_t::PAD_NONE;
  uint64_t padValue = 0;
  uint64_t deqTensorAddr = 0;
};

struct Nd2NzParams {
  Nd2NzParams() = default;
  Nd2NzParams(uint16_t matrices, uint16_t rows, uint16_t columns, uint16_t src_matrix_stride, uint16_t src_row_stride,
              uint16_t dst_column_stride, uint16_t dst_row_stride, uint16_t dst_matrix_stride)
      : ndNum(matrices),
        nValue(rows),
        dValue(columns),
        srcNdMatrixStride(src_matrix_stride),
        srcDValue(src_row_stride),
        dstNzC0Stride(dst_column_stride),
        dstNzNStride(dst_row_stride),
        dstNzMatrixStride(dst_matrix_stride) {}

  uint16_t ndNum = 0;
  uint16_t nValue = 0;
  uint16_t dValue = 0;
  uint16_t srcNdMatrixStride = 0;
  uint16_t srcDValue = 0;
  uint16_t dstNzC0Stride = 0;
  uint16_t dstNzNStride = 0;
  uint16_t dstNzMatrixStride = 0;
};

struct Nz2NdParamsFull {
  Nz2NdParamsFull() = default;
  Nz2NdParamsFull(uint16_t matrices, uint16_t rows, uint16_t columns, uint16_t src_matrix_stride,
                  uint16_t src_column_stride, uint16_t dst_row_stride, uint16_t dst_matrix_stride)
      : ndNum(matrices),
        nValue(rows),
        dValue(columns),
        srcNdMatrixStride(src_matrix_stride),
        srcNStride(src_column_stride),
        dstDStride(dst_row_stride),
        dstNdMatrixStride(dst_matrix_stride) {}

  uint16_t ndNum = 1;
  uint16_t nValue = 0;
  uint16_t dValue = 0;
  uint16_t srcNdMatrixStride = 1;
  uint16_t srcNStride = 0;
  uint16_t dstDStride = 0;
  uint16_t dstNdMatrixStride = 1;
};

struct SliceInfo {
  SliceInfo() = default;
  SliceInfo(uint32_t start, uint32_t end, uint32_t gap, uint32_t burst, uint32_t shape = 0)
      : startIndex(start), endIndex(end), stride(gap), burstLen(burst), shapeValue(shape) {}

  uint32_t startIndex = 0;
  uint32_t endIndex = ONE_BLK_SIZE - 1;
  uint32_t stride = 0;
  uint32_t burstLen = ONE_BLK_SIZE;
  uint32_t shapeValue = 0;
};

// Of calls that neither chip has, or that are not emulated yet: named so that the refusal can say why.
struct DataCopyPadParams {
  DataCopyPadParams() = default;
  DataCopyPadParams(bool pad, uint8_t left, uint8_t right, uint64_t value)
      : isPad(pad), leftPadding(left), rightPadding(right), paddingValue(value) {}

  bool isPad = false;
  uint8_t leftPadding = 0;
  uint8_t rightPadding = 0;
  uint64_t paddingValue = 0;
};

struct DataCopyExtParams {
  DataCopyExtParams() = default;
  DataCopyExtParams(uint16_t count, uint32_t length, uint32_t src_gap, uint32_t dst_gap, uint32_t reserved)
      : blockCount(count), blockLen(length), srcStride(src_gap), dstStride(dst_gap), rsv(reserved) {}

  uint16_t blockCount = DEFAULT_DATA_COPY_NBURST;
  uint32_t blockLen = 0;
  uint32_t srcStride = DEFAULT_DATA_COPY_STRIDE;
  uint32_t dstStride = DEFAULT_DATA_COPY_STRIDE;
  uint32_t rsv = 0;
};

template <typename T>
struct DataCopyPadExtParams {
  DataCopyPadExtParams() = default;
  DataCopyPadExtParams(bool pad, uint8_t left, uint8_t right, T value)
      : isPad(pad), leftPadding(left), rightPadding(right), paddingValue(value) {}

  bool isPad = false;
  uint8_t leftPadding = 0;
  uint8_t rightPadding = 0;
  T paddingValue = 0;
};

struct DataCopyCO12DstParams {
  DataCopyCO12DstParams() = default;
  DataCopyCO12DstParams(uint16_t n, uint16_t m, uint32_t dst_stride, uint16_t src_stride, QuantMode_t quant,
                        uint8_t relu, bool split, bool nz2nd)
      : nSize(n),
        mSize(m),
        dstStride(dst_stride),
        srcStride(src_stride),
        quantPre(quant),
        reluPre(relu),
        channelSplit(split),
        nz2ndEn(nz2nd) {}

  uint8_t sid = 0;
  uint16_t nSize = 0;
  uint16_t mSize = 0;
  uint32_t dstStride = DEFAULT_DATA_COPY_STRIDE;
  uint16_t srcStride = DEFAULT_DATA_COPY_STRIDE;
  uint8_t unitFlag = 0;
  uint8_t clipReluPre = 0;
  uint8_t eltWiseOp = 0;
  QuantMode_t quantPre = QuantMode_t::NoQuant;
  uint8_t reluPre = 0;
  bool channelSplit = false;
  bool nz2ndEn = false;
};

}  // namespace AscendC

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_PARAMS_COPY_H_
