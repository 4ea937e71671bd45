// DataCopy from a row-major matrix in GM to columns of blocks in L1 (ND to NZ). 310P does it in software, and slowly:
// tiles of 64 bytes x 32 rows (fewer for wider elements) pass through the reserve of UB, where the vector unit turns
// them. Copies with DataCopyParams, one for each column of 32 bytes, are faster where rows are multiples of 32 bytes.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_M200_ND2NZ_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_M200_ND2NZ_H_

#include "native/emulator/ascendc/common/copy.h"
#include "native/emulator/ascendc/common/duplicate.h"
#include "native/emulator/ascendc/m200/reserve.h"

namespace hajax::ascendc {

using AscendC::Nd2NzParams;

inline constexpr int64_t kTileBytes = 64;       // width, and height times the size of an element
inline constexpr int64_t kTurnedAt = 4 * 1024;  // where the turned tile lies in the reserve
inline constexpr int64_t kRepeatsMost = 255;

template <typename T>
struct NdTile {
  static constexpr int64_t kBlock = AscendC::ONE_BLK_SIZE / static_cast<int64_t>(sizeof(T));
  const T* src;  // in GM
  T* dst;        // in L1
  int64_t rows;
  int64_t columns;

  int64_t blocks() const { return (columns + kBlock - 1) / kBlock; }
};

// Rows of the tile into the reserve, their last block filled up with zeros.
template <typename T>
HAJAX_API void load_nd_tile(const NdTile<T>& tile, T* rows, int64_t src_row) {
  constexpr int64_t kBlock = NdTile<T>::kBlock;
  const int64_t blocks = tile.blocks();
  const int64_t rest = tile.columns % kBlock;
  if (rest == 0 && src_row % kBlock == 0) {
    copy_gm_to_ubuf(rows, tile.src, 0, tile.rows, blocks, (src_row - tile.columns) / kBlock, 0);
  } else {
    for (int64_t i = 0; i < tile.rows; ++i) {
      copy_gm_to_ubuf(rows + i * blocks * kBlock, tile.src + i * src_row, 0, 1, blocks, 0, 0);
    }
  }
  order("DataCopy", HardEvent::MTE2_V);
  if (rest == 0) return;
  const int64_t start = tile.columns - rest;
  set_vector_mask(0, ((uint64_t{1} << (kBlock - rest)) - 1) << rest);
  duplicate(rows + start, T(0), tile.rows, 1, blocks);
  pipe_barrier(PIPE_V);
}

// Column after column of 32 bytes, by adding 0.
template <typename T>
HAJAX_API void turn_nd_tile(const NdTile<T>& tile, T* turned, const T* rows) {
  constexpr int64_t kBlock = NdTile<T>::kBlock;
  const int64_t blocks = tile.blocks();
  for (int64_t i = 0; i < blocks; ++i) {
    for (int64_t done = 0; done < tile.rows; done += kRepeatsMost) {
      const int64_t left = tile.rows - done;
      set_vector_mask(0, (uint64_t{1} << kBlock) - 1);
      vadds(turned + (i * tile.rows + done) * kBlock, rows + (done * blocks + i) * kBlock, T(0),
            left < kRepeatsMost ? left : kRepeatsMost, 1, 1, 1, blocks);
    }
  }
}

template <typename T>
HAJAX_API void copy_nd_tile(const NdTile<T>& first, const Nd2NzParams& p) {
  constexpr int64_t kBlock = NdTile<T>::kBlock;
  AscendC::TPipe& pipe = current_pipe("DataCopy");
  const Reserve reserve;
  T* rows = reserve.at<T>(0);
  T* turned = reserve.at<T>(kTurnedAt);
  const AscendC::TEventID free = pipe.AllocEventID<HardEvent::MTE3_MTE2>();
  set_event(HardEvent::MTE3_MTE2, free);
  for (int64_t i = 0; i < p.ndNum; ++i) {
    NdTile<T> tile = first;
    tile.src += i * p.srcNdMatrixStride;
    tile.dst += i * p.dstNzMatrixStride;
    wait_event(HardEvent::MTE3_MTE2, free);
    load_nd_tile(tile, rows, p.srcDValue);
    turn_nd_tile(tile, turned, rows);
    order("DataCopy", HardEvent::V_MTE3);
    for (int64_t j = 0; j < tile.blocks(); ++j) {
      copy_ubuf_to_cbuf(tile.dst + j * kBlock * p.dstNzC0Stride, turned + j * kBlock * tile.rows, 0, tile.rows, 1, 0,
                        0);
    }
    set_event(HardEvent::MTE3_MTE2, free);
  }
  wait_event(HardEvent::MTE3_MTE2, free);
  pipe.ReleaseEventID<HardEvent::MTE3_MTE2>(free);
}

HAJAX_API void check_nd2nz(const Nd2NzParams& p) {
  expect_range("DataCopy with Nd2NzParams", "ndNum", p.ndNum, 1, AscendC::UINT12_MAX);
  expect_range("DataCopy with Nd2NzParams", "nValue", p.nValue, 1, 16384);
  expect_range("DataCopy with Nd2NzParams", "dValue", p.dValue, 1, UINT16_MAX);
  expect_range("DataCopy with Nd2NzParams", "srcDValue, at least dValue", p.srcDValue, p.dValue, UINT16_MAX);
  expect_range("DataCopy with Nd2NzParams", "dstNzC0Stride", p.dstNzC0Stride, 1, 16384);
  expect_range("DataCopy with Nd2NzParams", "dstNzNStride (the device's own steps take no other)", p.dstNzNStride, 1,
               1);
}

}  // namespace hajax::ascendc

namespace AscendC {

template <typename T>
HAJAX_API void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const Nd2NzParams& intriParams) {
  static_assert(SupportType<T, half, int16_t, float, int32_t>(),
                "AscendC::DataCopy with Nd2NzParams: on " HAJAX_CHIP " for half, int16_t, float, int32_t");
  if (hajax::ascendc::hardware_of(dst) != Hardware::L1) {
    hajax::ascendc::no_path(Hardware::GM, hajax::ascendc::hardware_of(dst),
                            " with Nd2NzParams that is emulated: use L1");
  }
  hajax::ascendc::check_nd2nz(intriParams);
  using Tile = hajax::ascendc::NdTile<T>;
  constexpr int64_t kEdge = hajax::ascendc::kTileBytes / static_cast<int64_t>(sizeof(T));
  const Nd2NzParams& p = intriParams;
  // Whole tiles, then the lowest rows, then the last columns, as the device goes.
  const auto tile = [&](int64_t row, int64_t column) {
    const int64_t rows = p.nValue - row < kEdge ? p.nValue - row : kEdge;
    const int64_t columns = p.dValue - column < kEdge ? p.dValue - column : kEdge;
    T* to = hajax::ascendc::pointer(dst) + row * Tile::kBlock + column * p.dstNzC0Stride;
    hajax::ascendc::copy_nd_tile<T>({hajax::ascendc::pointer(src) + row * p.srcDValue + column, to, rows, columns}, p);
  };
  const int64_t whole_columns = p.dValue / kEdge * kEdge;
  for (int64_t row = 0; row < p.nValue; row += kEdge) {
    for (int64_t column = 0; column < whole_columns; column += kEdge) tile(row, column);
  }
  if (whole_columns == p.dValue) return;
  for (int64_t row = 0; row < p.nValue; row += kEdge) tile(row, whole_columns);
}

}  // namespace AscendC

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_M200_ND2NZ_H_
