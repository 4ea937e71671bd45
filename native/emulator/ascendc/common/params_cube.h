// Parameters of loads to the cube, of Mmad and of Fill.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_PARAMS_CUBE_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_PARAMS_CUBE_H_

#include "native/emulator/ascendc/common/constants.h"

namespace AscendC {

struct LoadData2DParams {
  LoadData2DParams() = default;
  LoadData2DParams(uint16_t start, uint8_t repeats, uint16_t src_stride, uint8_t stream, uint16_t dst_gap,
                   bool transpose, uint8_t address_mode)
      : startIndex(start),
        dstGap(dst_gap),
        srcStride(src_stride),
        ifTranspose(transpose),
        repeatTimes(repeats),
        sid(stream),
        addrMode(address_mode) {}

  uint16_t startIndex = 0;
  uint16_t dstGap = 0;
  uint16_t srcStride = 0;
  bool ifTranspose = false;
  uint8_t repeatTimes = 0;
  uint8_t sid = 0;
  uint8_t addrMode = 0;
};
using LoadData2dParams = LoadData2DParams;

struct MmadParams {
  MmadParams() = default;
  MmadParams(uint16_t rows, uint16_t columns, uint16_t depth, bool bias, int32_t offset, bool sparse, bool winograd_a,
             bool winograd_b)
      : m(rows),
        n(columns),
        k(depth),
        isBias(bias),
        fmOffset(offset),
        enSsparse(sparse),
        enWinogradA(winograd_a),
        enWinogradB(winograd_b) {}
  MmadParams(uint16_t rows, uint16_t columns, uint16_t depth, uint8_t flag, bool from_bias_table, bool overwrite)
      : m(rows), n(columns), k(depth), unitFlag(flag), cmatrixSource(from_bias_table), cmatrixInitVal(overwrite) {}

  uint16_t m = 0;
  uint16_t n = 0;
  uint16_t k = 0;
  bool isBias = false;
  int32_t fmOffset = 0;
  bool enSsparse = false;
  bool enWinogradA = false;
  bool enWinogradB = false;
  uint8_t unitFlag = 0;
  bool kDirectionAlign = false;
  bool cmatrixSource = false;
  bool cmatrixInitVal = true;
};

template <typename T>
struct InitConstValueParams {
  InitConstValueParams() = default;
  InitConstValueParams(uint16_t repeats, uint16_t blocks, uint16_t gap, T value)
      : repeatTimes(repeats), blockNum(blocks), dstGap(gap), initValue(value) {}
  InitConstValueParams(uint16_t repeats, T value) : repeatTimes(repeats), initValue(value) {}

  uint16_t repeatTimes = 0;
  uint16_t blockNum = 0;
  uint16_t dstGap = 0;
  T initValue = 0;
};

// Of calls that 310P lacks: named so that the refusal can say why.
struct LoadData2DParamsV2 {
  LoadData2DParamsV2() = default;
  LoadData2DParamsV2(uint32_t m_start, uint32_t k_start, uint16_t m_step, uint16_t k_step, int32_t src_stride,
                     uint16_t dst_stride, bool transpose, uint8_t stream)
      : mStartPosition(m_start),
        kStartPosition(k_start),
        mStep(m_step),
        kStep(k_step),
        srcStride(src_stride),
        dstStride(dst_stride),
        ifTranspose(transpose),
        sid(stream) {}

  uint32_t mStartPosition = 0;
  uint32_t kStartPosition = 0;
  uint16_t mStep = 0;
  uint16_t kStep = 0;
  int32_t srcStride = 0;
  uint16_t dstStride = 0;
  bool ifTranspose = false;
  uint8_t sid = 0;
};

struct LoadData2dTransposeParams {
  LoadData2dTransposeParams() = default;
  LoadData2dTransposeParams(uint16_t start, uint8_t repeats, uint16_t src_stride, uint16_t dst_gap,
                            uint16_t dst_fractal_gap, uint8_t address_mode = 0)
      : startIndex(start),
        repeatTimes(repeats),
        srcStride(src_stride),
        dstGap(dst_gap),
        dstFracGap(dst_fractal_gap),
        addrMode(address_mode) {}

  uint16_t startIndex = 0;
  uint8_t repeatTimes = 0;
  uint16_t srcStride = 0;
  uint16_t dstGap = 0;
  uint16_t dstFracGap = 0;
  uint8_t addrMode = 0;
};

template <typename T>
struct LoadData3DParamsV1 {
  static_assert(hajax::ascendc::never<T>, "AscendC::LoadData3DParamsV1: not emulated yet: use LoadData2DParams");
};
template <typename T>
struct LoadData3DParamsV2 {
  static_assert(hajax::ascendc::never<T>, "AscendC::LoadData3DParamsV2: not emulated yet: use LoadData2DParams");
};

}  // namespace AscendC

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_PARAMS_CUBE_H_
