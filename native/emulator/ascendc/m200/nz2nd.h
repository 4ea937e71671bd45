// DataCopy from UB to GM that turns columns of 16 elements into a row-major matrix (NZ to ND), in software: a strided
// copy for each column, or one a row where rows of GM are not whole blocks apart.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_M200_NZ2ND_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_M200_NZ2ND_H_

#include "native/emulator/ascendc/common/copy.h"

namespace hajax::ascendc {

using AscendC::Nz2NdParamsFull;

// 16 columns of one matrix.
template <typename T>
HAJAX_API void copy_nz_column(T* dst, const T* src, const Nz2NdParamsFull& p) {
  constexpr int64_t kBlock = AscendC::ONE_BLK_SIZE / static_cast<int64_t>(sizeof(T));
  constexpr int64_t kColumns = AscendC::BLOCK_CUBE;
  const int64_t gap = (p.dstDStride - kColumns) / kBlock;
  const int64_t most = p.dstDStride % kBlock == 0 ? AscendC::UINT12_MAX : 1;  // rows in a copy
  for (int64_t row = 0; row < p.nValue; row += most) {
    const int64_t left = p.nValue - row;
    const int64_t rows = left < most ? left : most;
    copy_ubuf_to_gm(dst + row * p.dstDStride, src + row * kColumns, 0, rows, kColumns / kBlock, 0, rows == 1 ? 0 : gap);
  }
}

template <typename T>
HAJAX_API void check_nz2nd(const Nz2NdParamsFull& p) {
  constexpr const char* kCall = "DataCopy with Nz2NdParamsFull";
  expect_range(kCall, "ndNum", p.ndNum, 1, AscendC::UINT12_MAX);
  expect_range(kCall, "nValue", p.nValue, 1, 8192);
  expect_range(kCall, "dValue", p.dValue, 1, 8192);
  expect_multiple(kCall, "dValue", p.dValue, AscendC::BLOCK_CUBE, "A column has 16 elements");
  expect_range(kCall, "srcNStride, at least nValue", p.srcNStride, p.nValue, UINT16_MAX);
  expect_range(kCall, "dstDStride, at least dValue", p.dstDStride, p.dValue, UINT16_MAX);
  if (p.ndNum == 1) return;
  expect_multiple(kCall, "elements between matrices (srcNdMatrixStride * 256)",
                  int64_t{p.srcNdMatrixStride} * AscendC::CUBE_MAX_SIZE, p.nValue * static_cast<int64_t>(sizeof(T)),
                  "Take a multiple of nValue times the size of an element");
}

}  // namespace hajax::ascendc

namespace AscendC {

template <typename T>
HAJAX_API void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const Nz2NdParamsFull& intriParams) {
  static_assert(SupportType<T, half, int16_t, uint16_t, float, int32_t, uint32_t>(),
                "AscendC::DataCopy with Nz2NdParamsFull: on " HAJAX_CHIP " for elements of 16 or 32 bits");
  if (hajax::ascendc::hardware_of(src) != Hardware::UB) {
    hajax::ascendc::no_path(hajax::ascendc::hardware_of(src), Hardware::GM, " with Nz2NdParamsFull: go through UB");
  }
  hajax::ascendc::check_nz2nd<T>(intriParams);
  const Nz2NdParamsFull& p = intriParams;
  for (int64_t i = 0; i < p.ndNum; ++i) {
    T* to = hajax::ascendc::pointer(dst) + i * p.dstNdMatrixStride;
    const T* from = hajax::ascendc::pointer(src) + i * p.srcNdMatrixStride * CUBE_MAX_SIZE;
    for (int64_t column = 0; column < p.dValue; column += BLOCK_CUBE) {
      hajax::ascendc::copy_nz_column(to + column, from + column * p.srcNStride, p);
    }
  }
}

}  // namespace AscendC

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_M200_NZ2ND_H_
