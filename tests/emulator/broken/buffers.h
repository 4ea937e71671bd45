// Two UB buffers and two arrays in GM, for the kernels of this folder.
#ifndef HAJAX_TESTS_EMULATOR_BROKEN_BUFFERS_H_
#define HAJAX_TESTS_EMULATOR_BROKEN_BUFFERS_H_

#include "kernel_operator.h"

using namespace AscendC;

#define KERNEL(name) extern "C" __global__ __aicore__ void name(GM_ADDR in, GM_ADDR out, uint32_t count)

struct Buffers {
  TPipe pipe;
  TBuf<TPosition::VECCALC> first, second;
  LocalTensor<float> a, b;
  GlobalTensor<float> from, to;
  __aicore__ inline Buffers(GM_ADDR in, GM_ADDR out, uint32_t count) {
    pipe.InitBuffer(first, 1024);
    pipe.InitBuffer(second, 1024);
    a = first.Get<float>();
    b = second.Get<float>();
    from.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(in), count);
    to.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(out), count);
  }
};

template <HardEvent event>
__aicore__ inline void Order(int32_t id = 0) {
  SetFlag<event>(id);
  WaitFlag<event>(id);
}

#endif  // HAJAX_TESTS_EMULATOR_BROKEN_BUFFERS_H_
