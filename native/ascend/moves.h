// Steps between GM and a core, and between L1 and UB. Only whole blocks of 32 bytes move: rows that a last chunk lacks
// are filled from the zeros in the constants, never read.
#ifndef HAJAX_NATIVE_ASCEND_MOVES_H_
#define HAJAX_NATIVE_ASCEND_MOVES_H_

#include "native/ascend/frame.h"

namespace hajax::ascend {

using AscendC::DataCopy;
using AscendC::DataCopyParams;

constexpr uint32_t kDense = 0;
constexpr uint32_t kFractals = 2;

// The part of a tensor that a step moves.
struct Tile {
  GM_ADDR address;  // of its first row
  uint32_t unit;    // blocks of 16 columns of a row
  uint32_t stride;  // blocks from row to row
  uint32_t rows;    // that are there
  uint32_t room;    // rows of the tile in the core's memory
};

__aicore__ inline DataCopyParams Runs(uint32_t count, uint32_t length, uint32_t src_gap, uint32_t dst_gap) {
  return DataCopyParams(static_cast<uint16_t>(count), static_cast<uint16_t>(length), static_cast<uint16_t>(src_gap),
                        static_cast<uint16_t>(dst_gap));
}

// `state`: rows of the state instead of the chunk's tokens.
__aicore__ inline Tile TileOf(const Context& c, const Step& step, bool state) {
  const uint32_t tensor = step.P(0);
  const uint32_t head = c.head + step.P(1);
  const uint64_t token = c.token + c.at.token;
  uint64_t row = 0;  // of vectors of `dim` elements
  uint32_t heads = c.value_heads;
  uint32_t dim = c.value_dim;
  uint32_t column = step.P(2) * kSide;
  Tile tile;
  tile.unit = 2;
  switch (tensor) {
    case kTensor_query:
    case kTensor_key:
      tile.unit = 1;
      heads = c.key_heads;
      dim = c.key_dim;
      row = token * heads + c.KeyHead(head);
      break;
    case kTensor_log_decay:
      dim = c.key_dim;
      row = token * heads + head;
      break;
    case kTensor_value:
      tile.unit = 1;
      row = token * heads + head;
      column += c.column;
      break;
    case kTensor_output:
      tile.unit = c.output_bytes / sizeof(half);
      row = token * heads + head;
      column += c.column;
      break;
    default:  // states
      heads = 1;
      row = (static_cast<uint64_t>(c.state) * c.value_heads + head) * c.key_dim + step.P(5) * kSide;
      column += c.column;
      break;
  }
  tile.address = c.tensor[tensor] + (row * dim + column) * tile.unit * sizeof(half);
  tile.stride = heads * dim / kSide * tile.unit;
  tile.room = !state ? c.chunk : step.P(6) != 0 ? step.P(6) * kSide : c.key_dim;
  tile.rows = state ? tile.room : c.at.rows;
  return tile;
}

__aicore__ inline void RowsToL1(const Context& c, const Step& step) {
  const Tile tile = TileOf(c, step, false);
  const uint32_t dst = c.L1(step.Dst());
  const DataCopyParams gather = Runs(tile.rows, 1, tile.stride - 1, 0);
  const uint32_t missing = tile.room - tile.rows;
  for (uint32_t i = 0; i < step.Count(); ++i) {
    const uint32_t to = dst + i * tile.room * kBlock;
    DataCopy(InL1<half>(to), InGm(tile.address + i * kBlock), gather);
    if (missing != 0) DataCopy(InL1<half>(to + tile.rows * kBlock), InGm(c.constants), Runs(1, missing, 0, 0));
  }
}

// `blocks` of zeros from UB address `to` on.
__aicore__ inline void ZeroUb(const Context& c, uint32_t to, uint32_t blocks) {
  constexpr uint32_t kMost = HJ_ZERO_BYTES / kBlock;
  while (blocks != 0) {
    const uint32_t some = blocks < kMost ? blocks : kMost;
    DataCopy(InUb<half>(to), InGm(c.constants), Runs(1, some, 0, 0));
    to += some * kBlock;
    blocks -= some;
  }
}

__aicore__ inline void RowsToUb(const Context& c, const Step& step) {
  const Tile tile = TileOf(c, step, step.P(4) != 0);
  const uint32_t dst = c.Ub(step.Dst());
  const uint32_t missing = tile.room - tile.rows;
  if (step.P(3) == kDense) {
    const uint32_t width = step.Count() * tile.unit;
    DataCopy(InUb<half>(dst), InGm(tile.address), Runs(tile.rows, width, tile.stride - width, 0));
    if (missing != 0) ZeroUb(c, dst + tile.rows * width * kBlock, missing * width);
    return;
  }
  const uint32_t block = tile.unit * kBlock;
  const DataCopyParams gather = Runs(tile.rows, tile.unit, tile.stride - tile.unit, 0);
  for (uint32_t i = 0; i < step.Count(); ++i) {
    const uint32_t to = dst + i * tile.room * block;
    DataCopy(InUb<half>(to), InGm(tile.address + i * block), gather);
    if (missing != 0) ZeroUb(c, to + tile.rows * block, missing * tile.unit);
  }
}

__aicore__ inline void RowsFromUb(const Context& c, const Step& step) {
  const Tile tile = TileOf(c, step, step.P(4) != 0);
  const uint32_t src = c.Ub(step.Src0());
  const uint32_t layout = step.P(3);
  const uint32_t count = step.Count();
  if (layout == kDense) {
    const uint32_t width = count * tile.unit;
    DataCopy(InGm(tile.address), InUb<half>(src), Runs(tile.rows, width, 0, tile.stride - width));
    return;
  }
  const uint32_t block = tile.unit * kBlock;
  if (layout != kFractals) {
    const DataCopyParams scatter = Runs(tile.rows, tile.unit, 0, tile.stride - tile.unit);
    for (uint32_t i = 0; i < count; ++i) {
      DataCopy(InGm(tile.address + i * block), InUb<half>(src + i * tile.room * block), scatter);
    }
    return;
  }
  for (uint32_t row = 0; row < tile.rows; row += kSide) {
    const uint32_t rows = tile.rows - row < kSide ? tile.rows - row : kSide;
    const DataCopyParams scatter = Runs(rows, tile.unit, 0, tile.stride - tile.unit);
    const uint32_t from = src + row * count * block;
    GM_ADDR to = tile.address + static_cast<uint64_t>(row) * tile.stride * kBlock;
    for (uint32_t i = 0; i < count; ++i) {
      DataCopy(InGm(to + i * block), InUb<half>(from + i * kSide * block), scatter);
    }
  }
}

__aicore__ inline void GateToUb(const Context& c, const Step& step) {
  const uint64_t entry = (c.head + step.P(1)) * c.gates + c.gate + c.at.token;
  DataCopy(InUb<half>(c.Ub(step.Dst())), InGm(c.tensor[step.P(0)] + entry * sizeof(float)),
           Runs(1, c.chunk * static_cast<uint32_t>(sizeof(float)) / kBlock, 0, 0));
}

__aicore__ inline void ConstantToL1(const Context& c, const Step& step) {
  DataCopy(InL1<half>(c.L1(step.Dst())), InGm(c.constants + step.Src0() * kBlock), Runs(1, step.Size(), 0, 0));
}
__aicore__ inline void ConstantToUb(const Context& c, const Step& step) {
  DataCopy(InUb<half>(c.Ub(step.Dst())), InGm(c.constants + step.Src0() * kBlock), Runs(1, step.Size(), 0, 0));
}

// The slot of the workspace that a step names: this head's, this chunk's or an earlier one's, from the item's columns
// on.
__aicore__ inline GM_ADDR Slot(const Context& c, const Step& step) {
  const uint64_t slot = (c.head + step.P(1)) * c.slots + c.slot + c.at.token / c.chunk - step.Wide(2);
  const uint64_t columns = c.column / kSide * step.Wide(4) * kBlock;
  return c.tensor[kTensor_workspace] + slot * c.slot_bytes + columns;
}
__aicore__ inline void WorkspaceToL1(const Context& c, const Step& step) {
  DataCopy(InL1<half>(c.L1(step.Dst())), InGm(Slot(c, step) + step.Src0() * kBlock), Runs(1, step.Size(), 0, 0));
}
__aicore__ inline void WorkspaceToUb(const Context& c, const Step& step) {
  DataCopy(InUb<half>(c.Ub(step.Dst())), InGm(Slot(c, step) + step.Src0() * kBlock), Runs(1, step.Size(), 0, 0));
}
__aicore__ inline void WorkspaceFromUb(const Context& c, const Step& step) {
  DataCopy(InGm(Slot(c, step) + step.Dst() * kBlock), InUb<half>(c.Ub(step.Src0())), Runs(1, step.Size(), 0, 0));
}

__aicore__ inline void L1ToUb(const Context& c, const Step& step) {
  DataCopy(InUb<half>(c.Ub(step.Dst())), InL1<half>(c.L1(step.Src0())),
           Runs(step.Count(), step.Size(), step.Wide(0), step.Wide(2)));
}
__aicore__ inline void UbToL1(const Context& c, const Step& step) {
  DataCopy(InL1<half>(c.L1(step.Dst())), InUb<half>(c.Ub(step.Src0())),
           Runs(step.Count(), step.Size(), step.Wide(0), step.Wide(2)));
}

}  // namespace hajax::ascend

#endif  // HAJAX_NATIVE_ASCEND_MOVES_H_
