// One call of the vector families, chosen by number: on the first `count` elements, or with masks and strides.
#include "frame.h"

using namespace AscendC;

namespace {

template <typename T>
struct Call {
  LocalTensor<T> dst, a, b;
  uint32_t count;

  template <typename Function>
  void Copied(const Function& function) {
    DataCopy(dst, b, frame::Whole<T>(count));
    PipeBarrier<PIPE_V>();
    function();
  }

  void Count(uint32_t which) {
    const auto n = static_cast<int32_t>(count);
    const T s = static_cast<T>(2.0f);
    switch (which) {
      case 0:
        return Add(dst, a, b, n);
      case 1:
        return Sub(dst, a, b, n);
      case 2:
        return Mul(dst, a, b, n);
      case 3:
        return Div(dst, a, b, n);
      case 4:
        return Max(dst, a, b, n);
      case 5:
        return Min(dst, a, b, n);
      case 6:
        return AddRelu(dst, a, b, n);
      case 7:
        return SubRelu(dst, a, b, n);
      case 8:
        return Copied([&] { FusedMulAdd(dst, a, b, n); });
      case 9:
        return Copied([&] { FusedMulAddRelu(dst, a, b, n); });
      case 10:
        return Copied([&] { MulAddDst(dst, a, b, n); });
      case 11:
        return Abs(dst, a, n);
      case 12:
        return Exp(dst, a, n);
      case 13:
        return Ln(dst, b, n);
      case 14:
        return Reciprocal(dst, b, n);
      case 15:
        return Sqrt(dst, b, n);
      case 16:
        return Rsqrt(dst, b, n);
      case 17:
        return Relu(dst, a, n);
      case 18:
        return Adds(dst, a, s, n);
      case 19:
        return Muls(dst, a, s, n);
      case 20:
        return Maxs(dst, a, s, n);
      case 21:
        return Mins(dst, a, s, n);
      case 22:
        return LeakyRelu(dst, a, s, n);
      case 23:
        return Copied([&] { Axpy(dst, a, s, n); });
      case 24:
        return Duplicate(dst, s, n);
      case 25:
        return CreateVecIndex(dst, s, count);
      case 26:
        dst = a + b;
        return;
      case 27:
        dst = a / b;
        return;
      default:
        ascendc_assert(false);
    }
  }

  // Lanes 0 to 19 of repeats that lie 10 blocks apart in dst, 8 in the sources.
  void Lanes(uint32_t which) {
    const T s = static_cast<T>(2.0f);
    const BinaryRepeatParams two(1, 1, 1, 10, 8, 8);
    const UnaryRepeatParams one(1, 1, 10, 8);
    uint64_t bits[2] = {0xFFFFF, 0};
    switch (which) {
      case 0:
        return Sub(dst, a, b, uint64_t{20}, 2, two);
      case 1:
        return Sub(dst, a, b, bits, 2, two);
      case 2:
        return Abs(dst, a, uint64_t{20}, 2, one);
      case 3:
        return Abs(dst, a, bits, 2, one);
      case 4:
        return Muls(dst, a, s, uint64_t{20}, 2, one);
      case 5:
        return Muls(dst, a, s, bits, 2, one);
      case 6:
        return Duplicate(dst, s, uint64_t{20}, 2, 1, 10);
      case 7:
        return Duplicate(dst, s, bits, 2, 1, 10);
      case 8:
        return CreateVecIndex(dst, s, uint64_t{20}, 2, 1, 10);
      case 9:
        return CreateVecIndex(dst, s, bits, 2, 1, 10);
      case 10:  // the mask as the kernel has set it
        SetVectorMask<T>(20);
        Sub<T, false>(dst, a, b, MASK_PLACEHOLDER, 2, two);
        ResetMask();
        return;
      default:
        ascendc_assert(false);
    }
  }
};

template <typename T>
void Start(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t count, uint32_t which, uint32_t lanes) {
  frame::Run<T, T>(x, y, z, count, count, [&](auto& dst, auto& a, auto& b, auto&) {
    Call<T> call{dst, a, b, count};
    lanes != 0 ? call.Lanes(which) : call.Count(which);
  });
}

template <typename To, typename From>
void Convert(GM_ADDR x, GM_ADDR z, uint32_t count, RoundMode mode) {
  frame::Run<To, From>(x, x, z, count, count, [&](auto& dst, auto& a, auto&, auto&) { Cast(dst, a, mode, count); });
}

}  // namespace

extern "C" __global__ __aicore__ void call_half(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t n, uint32_t which,
                                                uint32_t lanes) {
  Start<half>(x, y, z, n, which, lanes);
}
extern "C" __global__ __aicore__ void call_float(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t n, uint32_t which,
                                                 uint32_t lanes) {
  Start<float>(x, y, z, n, which, lanes);
}

extern "C" __global__ __aicore__ void cast(GM_ADDR x, GM_ADDR z, uint32_t n, uint32_t which, uint32_t mode) {
  const auto round = static_cast<RoundMode>(mode);
  switch (which) {
    case 0:
      return Convert<float, half>(x, z, n, round);
    case 1:
      return Convert<half, float>(x, z, n, round);
    case 2:
      return Convert<int32_t, float>(x, z, n, round);
    case 3:
      return Convert<float, int32_t>(x, z, n, round);
    case 4:
      return Convert<int32_t, half>(x, z, n, round);
    case 5:
      return Convert<half, int16_t>(x, z, n, round);
    case 6:
      return Convert<int16_t, half>(x, z, n, round);
    case 7:
      return Convert<half, uint8_t>(x, z, n, round);
#if __NPU_ARCH__ == 2002
    case 8:
      return Convert<int8_t, half>(x, z, n, round);
    case 9:
      return Convert<int16_t, int32_t>(x, z, n, round);
#endif
    default:
      ascendc_assert(false);
  }
}
