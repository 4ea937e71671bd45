// Gather, Scatter, GatherMask, Brcb, Transpose, TransDataTo5HD.
#include "frame.h"

using namespace AscendC;

namespace {

template <typename T>
void Gathered(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t count, bool scatter) {
  frame::Run<T, uint32_t>(y, x, z, count, count, [&](auto& dst, auto& offsets, auto& data, auto&) {
    LocalTensor<T> from = data.template ReinterpretCast<T>();
    if (scatter) {
      Scatter(dst, from, offsets, 0, count);
    } else {
      Gather(dst, from, offsets, 0, count);
    }
  });
}

template <typename T>
void Masked(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t count, uint32_t pattern, uint32_t mask) {
  frame::Run<T, T>(x, y, z, count, count, [&](auto& dst, auto& a, auto& b, auto&) {
    using Bits = std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>;
    const auto repeats = static_cast<uint16_t>(count * sizeof(T) / 256);
    uint64_t kept = 0;
    if (pattern == 0) {
      GatherMask(dst, a, b.template ReinterpretCast<Bits>(), mask != 0, mask, {1, repeats, 8, 1}, kept);
    } else {
      GatherMask(dst, a, static_cast<uint8_t>(pattern), false, 0, {1, repeats, 8, 0}, kept);
    }
    SetFlag<HardEvent::V_S>(EVENT_ID1);
    WaitFlag<HardEvent::V_S>(EVENT_ID1);
    dst.SetValue(count - 1, static_cast<T>(static_cast<float>(kept)));
  });
}

template <typename T>
void Spread(GM_ADDR x, GM_ADDR z, uint32_t count, uint32_t stride) {
  const auto size = static_cast<uint32_t>(count * stride * frame::kBlock / sizeof(T));
  frame::Run<T, T>(x, x, z, count, size, [&](auto& dst, auto& a, auto&, auto&) {
    Brcb(dst, a, count / 8, BrcbRepeatParams(static_cast<uint16_t>(stride), static_cast<uint16_t>(8 * stride)));
  });
}

}  // namespace

extern "C" __global__ __aicore__ void gather_half(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t count, uint32_t scatter) {
  Gathered<half>(x, y, z, count, scatter != 0);
}
extern "C" __global__ __aicore__ void gather_float(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t count, uint32_t scatter) {
  Gathered<float>(x, y, z, count, scatter != 0);
}
extern "C" __global__ __aicore__ void mask_half(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t n, uint32_t pattern,
                                                uint32_t mask) {
  Masked<half>(x, y, z, n, pattern, mask);
}
extern "C" __global__ __aicore__ void mask_float(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t n, uint32_t pattern,
                                                 uint32_t mask) {
  Masked<float>(x, y, z, n, pattern, mask);
}
extern "C" __global__ __aicore__ void spread_half(GM_ADDR x, GM_ADDR z, uint32_t count, uint32_t stride) {
  Spread<half>(x, z, count, stride);
}
extern "C" __global__ __aicore__ void spread_float(GM_ADDR x, GM_ADDR z, uint32_t count, uint32_t stride) {
  Spread<float>(x, z, count, stride);
}

extern "C" __global__ __aicore__ void transpose(GM_ADDR x, GM_ADDR z, uint32_t which) {
  frame::Run<half, half>(x, x, z, 256, 256, [&](auto& dst, auto& a, auto& b, auto& work) {
    if (which == 0) return Transpose(dst, a);
    if (which == 1) {
      LocalTensor<half> to[16], from[16];
      for (uint32_t i = 0; i < 16; ++i) {
        to[i] = dst[i * 16];
        from[i] = a[i * 16];
      }
      return TransDataTo5HD(to, from, TransDataTo5HDParams(false, false, 1, 0, 0));
    }
    if (which == 2) {
      uint64_t to[16], from[16];
      for (uint32_t i = 0; i < 16; ++i) {
        to[i] = dst.GetPhyAddr(i * 16);
        from[i] = b.GetPhyAddr(i * 16);
      }
      return TransDataTo5HD<half>(to, from, TransDataTo5HDParams());
    }
    const auto type = which == 3 ? TransposeType::TRANSPOSE_NCHW2NHWC : TransposeType::TRANSPOSE_NHWC2NCHW;
    return Transpose(dst, a, work.template ReinterpretCast<uint8_t>(), TransposeParamsExt(2, 4, 8, 4, type));
  });
}
