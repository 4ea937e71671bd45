// Comparisons into UB and into the register, selections in every mode.
#include "frame.h"

using namespace AscendC;

namespace {

template <typename T>
struct Choice {
  LocalTensor<T> dst, a, b;
  LocalTensor<uint8_t> bits;
  uint32_t count;

  void Run(uint32_t which, CMPMODE mode) {
    const T s = static_cast<T>(0.5f);
    switch (which) {
      case 0:  // both operands from tensors
        Compare(bits, a, b, mode, count);
        PipeBarrier<PIPE_V>();
        return Select(dst, bits, a, b, SELMODE::VSEL_TENSOR_TENSOR_MODE, count);
      case 1:  // a scalar instead
        CompareScalar(bits, a, s, mode, count);
        PipeBarrier<PIPE_V>();
        return Select(dst, bits, a, s, SELMODE::VSEL_TENSOR_SCALAR_MODE, count);
      case 2:  // the register's bits, for each repeat the same
        Compares(bits, a, s, mode, count);
        PipeBarrier<PIPE_V>();
        return Select(dst, bits, a, b, SELMODE::VSEL_CMPMASK_SPR, count);
      case 3: {  // into the register, and from there
        const BinaryRepeatParams whole;
        Compare(a, b, mode, uint64_t{256 / sizeof(T)}, whole);
        PipeBarrier<PIPE_V>();
        return Select<T, SELMODE::VSEL_CMPMASK_SPR>(dst, a, b, 1, whole);
      }
      case 4:  // the same with a mask and a repeat
        Compare(bits, a, b, mode, uint64_t{64}, 1, BinaryRepeatParams());
        PipeBarrier<PIPE_V>();
        return Select(dst, bits, a, b, SELMODE::VSEL_TENSOR_TENSOR_MODE, uint64_t{40}, 1, BinaryRepeatParams());
      case 5:
        bits = a < b;
        PipeBarrier<PIPE_V>();
        return Select(dst, bits, a, s, SELMODE::VSEL_TENSOR_SCALAR_MODE, uint64_t{40}, 1, BinaryRepeatParams());
      case 6:  // the register to UB and back
        Compare(a, b, mode, uint64_t{256 / sizeof(T)}, BinaryRepeatParams());
        PipeBarrier<PIPE_V>();
        GetCmpMask(bits);
        PipeBarrier<PIPE_V>();
        return Select(dst, bits, a, b, SELMODE::VSEL_TENSOR_TENSOR_MODE, uint64_t{64}, 1, BinaryRepeatParams());
      default:
        ascendc_assert(false);
    }
  }
};

template <typename T>
void Start(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t count, uint32_t which, uint32_t mode) {
  frame::Run<T, T>(x, y, z, count, count, [&](auto& dst, auto& a, auto& b, auto& work) {
    Choice<T>{dst, a, b, work.template ReinterpretCast<uint8_t>(), count}.Run(which, static_cast<CMPMODE>(mode));
  });
}

}  // namespace

extern "C" __global__ __aicore__ void select_half(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t n, uint32_t which,
                                                  uint32_t mode) {
  Start<half>(x, y, z, n, which, mode);
}
extern "C" __global__ __aicore__ void select_float(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t n, uint32_t which,
                                                   uint32_t mode) {
  Start<float>(x, y, z, n, which, mode);
}

// More repeats than one instruction takes; the bits themselves come out.
extern "C" __global__ __aicore__ void many(GM_ADDR x, GM_ADDR z, uint32_t n) {
  GlobalTensor<half> from;
  GlobalTensor<uint8_t> to;
  from.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(x), n);
  to.SetGlobalBuffer(reinterpret_cast<__gm__ uint8_t*>(z), n / 8);
  TPipe pipe;
  TQue<TPosition::VECIN, 1> in;
  TQue<TPosition::VECOUT, 1> out;
  pipe.InitBuffer(in, 1, n * 2);
  pipe.InitBuffer(out, 1, n / 8);
  LocalTensor<half> a = in.AllocTensor<half>();
  DataCopy(a, from, n);
  in.EnQue(a);
  a = in.DeQue<half>();
  LocalTensor<uint8_t> bits = out.AllocTensor<uint8_t>();
  CompareScalar(bits, a, half(0.5f), CMPMODE::LT, n);
  out.EnQue(bits);
  in.FreeTensor(a);
  bits = out.DeQue<uint8_t>();
  DataCopy(to, bits, n / 8);
  out.FreeTensor(bits);
}
