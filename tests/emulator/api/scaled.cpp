// Conversions with a scale, a sum, a product or a ReLU in the same instruction.
#include "frame.h"

using namespace AscendC;

namespace {

template <HardEvent event>
void Then() {
  SetFlag<event>(EVENT_ID1);
  WaitFlag<event>(EVENT_ID1);
}

// int16 to int8, sixteen to a block of 32 bytes.
void Dequantize(const LocalTensor<int8_t>& dst, const LocalTensor<int16_t>& a, LocalTensor<int16_t>& work, uint32_t n,
                uint32_t which) {
  if (which == 0) {
    SetDeqScale(0.5f, 3, true);
    return CastDeq<int8_t, int16_t, false, false>(dst, a, n);
  }
  VdeqInfo each;
  for (int i = 0; i < 16; ++i) {
    each.vdeqScale[i] = 0.25f * static_cast<float>(i);
    each.vdeqOffset[i] = static_cast<int16_t>(-i);
    each.vdeqSignMode[i] = true;
  }
  SetDeqScale(work.ReinterpretCast<uint64_t>(), each);
  Then<HardEvent::S_V>();
  CastDequant<int8_t, int16_t, true, true>(dst, a, n);  // into the upper halves
}

}  // namespace

extern "C" __global__ __aicore__ void dequantize(GM_ADDR x, GM_ADDR z, uint32_t n, uint32_t which) {
  frame::Run<int8_t, int16_t>(x, x, z, n, 2 * n,
                              [&](auto& dst, auto& a, auto&, auto& work) { Dequantize(dst, a, work, n, which); });
}

extern "C" __global__ __aicore__ void from_int32(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t n, uint32_t which) {
  frame::Run<half, int32_t>(x, y, z, n, n, [&](auto& dst, auto& a, auto& b, auto&) {
    SetDeqScale(half(0.125f));
    if (which == 0) return Cast(dst, a, RoundMode::CAST_NONE, n);
    AddDeqRelu(dst, a, b, n);
  });
}

extern "C" __global__ __aicore__ void to_int8(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t n, uint32_t which) {
  frame::Run<int8_t, half>(x, y, z, n, n, [&](auto& dst, auto& a, auto& b, auto&) {
    if (which == 0) return AddReluCast(dst, a, b, n);
    if (which == 1) return SubReluCast(dst, a, b, n);
    MulCast(dst, a, b, n);
  });
}

extern "C" __global__ __aicore__ void to_half(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t n) {
  frame::Run<half, float>(x, y, z, n, n, [&](auto& dst, auto& a, auto& b, auto&) { SubReluCast(dst, a, b, n); });
}

extern "C" __global__ __aicore__ void widening(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t n, uint32_t which) {
  frame::Run<float, half>(x, y, z, n, n, [&](auto& dst, auto& a, auto& b, auto&) {
    Duplicate(dst, 1.0f, static_cast<int32_t>(n));
    PipeBarrier<PIPE_V>();
    if (which == 0) return MulAddDst(dst, a, b, static_cast<int32_t>(n));
    Axpy(dst, a, half(0.5f), static_cast<int32_t>(n));
  });
}

// One fractal of int32 through L0C to half, with a float's bits as the scale.
extern "C" __global__ __aicore__ void result_scaled(GM_ADDR x, GM_ADDR z, uint32_t scale) {
  TPipe pipe;
  TBuf<TPosition::CO1> l0_c;
  pipe.InitBuffer(l0_c, 1024);
  frame::Run<half, int32_t>(x, x, z, 256, 256, [&](auto& dst, auto& a, auto&, auto&) {
    DataCopyEnhancedParams matrix;
    matrix.blockMode = BlockMode::BLOCK_MODE_MATRIX;
    DataCopy(l0_c.Get<int32_t>(), a, DataCopyParams(1, 1, 0, 0), matrix);
    PipeBarrier<PIPE_V>();
    matrix.deqScale = DeqScale::DEQ16;
    matrix.deqValue = scale;
    DataCopy(dst, l0_c.Get<int32_t>(), DataCopyParams(1, 1, 0, 0), matrix);
  });
}
