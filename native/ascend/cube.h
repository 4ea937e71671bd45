// Steps of the cube: loads from L1, products, and results between L0C and UB.
#ifndef HAJAX_NATIVE_ASCEND_CUBE_H_
#define HAJAX_NATIVE_ASCEND_CUBE_H_

#include "native/ascend/moves.h"

namespace hajax::ascend {

// Bits of a load's and of a product's flags, as opcodes.def has them.
constexpr uint32_t kTransposes = 1;
constexpr uint32_t kDistanceGrows = 2;
constexpr uint32_t kOverwrites = 1;
constexpr uint32_t kDepthGrows = 2;
constexpr uint32_t kBarrierBetween = 4;
constexpr uint32_t kWidthGrows = 8;
constexpr uint32_t kTriangle = 16;
constexpr uint32_t kRightMoves = 32;
constexpr uint32_t kLeftMoves = 64;
constexpr uint32_t kFewBlocks = 10;  // products of fewer need a barrier before the next one adds to them

// One instruction a group of fractals.
template <bool left>
__aicore__ inline void LoadGroups(uint32_t dst, uint32_t src, const Step& step) {
  AscendC::LoadData2DParams load;
  load.repeatTimes = static_cast<uint8_t>(step.Size());
  load.srcStride = static_cast<uint16_t>(step.P(0));
  load.ifTranspose = (step.P(4) & kTransposes) != 0;
  uint32_t distance = step.Wide(1) * kHalfFractal;
  for (uint32_t i = 0; i < step.Count(); ++i) {
    AscendC::LoadData(left ? InL0a(dst) : InL0b(dst), InL1<half>(src), load);
    dst += step.P(3) * kHalfFractal;
    src += distance;
    if ((step.P(4) & kDistanceGrows) != 0) distance += kHalfFractal;
  }
}

template <bool left>
__aicore__ inline void Load(const Context& c, const Step& step) {
  const uint32_t dst = left ? c.L0a(step.Dst()) : c.L0b(step.Dst());
  const uint32_t src = c.L1(step.Src0());
  LoadGroups<left>(dst, src, step);
  const uint32_t low = step.Wide(5);
  if (low != 0) LoadGroups<left>(dst + step.P(7) * kHalfFractal, src + low * kHalfFractal, step);
}

// Products of row i with columns 0 .. i.
__aicore__ inline void MultiplyTriangle(uint32_t dst, uint32_t left, uint32_t right, const Step& step,
                                        const AscendC::MmadParams& product) {
  for (uint32_t row = 0; row < step.Count(); ++row) {
    uint32_t column = right;
    for (uint32_t i = 0; i <= row; ++i) {
      AscendC::Mmad(InL0c(dst), InL0a(left), InL0b(column), product);
      dst += step.P(3) * kFloatFractal;
      column += step.P(5) * kHalfFractal;
    }
    left += step.P(4) * kHalfFractal;
  }
}

__aicore__ inline void MultiplyOnce(uint32_t dst, uint32_t left, uint32_t right, const Step& step, bool overwrites) {
  const uint32_t how = step.P(6);
  uint32_t width = step.P(1);
  uint32_t depth = step.P(2);
  AscendC::MmadParams product;
  product.m = static_cast<uint16_t>(step.P(0) * kSide);
  product.n = static_cast<uint16_t>(width * kSide);
  product.k = static_cast<uint16_t>(depth * kSide);
  product.cmatrixInitVal = overwrites;
  if ((how & kTriangle) != 0) {
    MultiplyTriangle(dst, left, right, step, product);
    return;
  }
  for (uint32_t i = 0; i < step.Count(); ++i) {
    if (i != 0 && (how & kBarrierBetween) != 0) AscendC::PipeBarrier<PIPE_M>();
    product.n = static_cast<uint16_t>(width * kSide);
    product.k = static_cast<uint16_t>(depth * kSide);
    AscendC::Mmad(InL0c(dst), InL0a(left), InL0b(right), product);
    dst += step.P(3) * kFloatFractal;
    left += step.P(4) * kHalfFractal;
    right += step.P(5) * kHalfFractal;
    if ((how & kLeftMoves) != 0) left += depth * kHalfFractal;
    if ((how & kRightMoves) != 0) right += width * depth * kHalfFractal;
    if ((how & kWidthGrows) != 0) dst += width++ * kFloatFractal;
    if ((how & kDepthGrows) != 0) ++depth;
  }
}

// High by high, then high by low, then low by high.
__aicore__ inline void Multiply(const Context& c, const Step& step) {
  const uint32_t dst = c.L0c(step.Dst());
  const uint32_t left = c.L0a(step.Src0());
  const uint32_t right = c.L0b(step.Src1());
  const bool few = step.P(0) * step.P(1) < kFewBlocks;
  MultiplyOnce(dst, left, right, step, (step.P(6) & kOverwrites) != 0);
  if (step.Index() != 0) {
    if (few) AscendC::PipeBarrier<PIPE_M>();
    MultiplyOnce(dst, left, right + step.Index() * kHalfFractal, step, false);
  }
  if (step.P(7) != 0) {
    if (few) AscendC::PipeBarrier<PIPE_M>();
    MultiplyOnce(dst, left + step.P(7) * kHalfFractal, right, step, false);
  }
}

__aicore__ inline AscendC::DataCopyEnhancedParams WholeFractals() {
  AscendC::DataCopyEnhancedParams matrix;
  matrix.blockMode = AscendC::BlockMode::BLOCK_MODE_MATRIX;
  return matrix;
}

// Gaps count fractals in L0C and blocks in UB.
template <typename T>
__aicore__ inline void ResultToUb(const Context& c, const Step& step) {
  constexpr uint32_t kFractal = kSide * kSide * static_cast<uint32_t>(sizeof(T)) / kBlock;
  DataCopy(InUb<T>(c.Ub(step.Dst())), InL0c(c.L0c(step.Src0())),
           Runs(step.Count(), step.Size(), step.P(0), step.P(1) * kFractal), WholeFractals());
}

__aicore__ inline void ResultFromUb(const Context& c, const Step& step) {
  constexpr uint32_t kFractal = kFloatFractal / kBlock;
  DataCopy(InL0c(c.L0c(step.Dst())), InUb<float>(c.Ub(step.Src0())),
           Runs(step.Count(), step.Size(), step.P(0) * kFractal, step.P(1)), WholeFractals());
}

}  // namespace hajax::ascend

#endif  // HAJAX_NATIVE_ASCEND_CUBE_H_
