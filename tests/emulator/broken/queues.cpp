// Kernels that misuse queues and tensors, one way each.
#include "kernel_operator.h"

using namespace AscendC;

#define KERNEL(name) extern "C" __global__ __aicore__ void name(GM_ADDR in, GM_ADDR out, uint32_t count)

struct Queue {
  TPipe pipe;
  TQue<TPosition::VECIN, 2> queue;
  GlobalTensor<float> from;
  __aicore__ inline Queue(GM_ADDR in, uint32_t count) {
    pipe.InitBuffer(queue, 2, 256);
    from.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(in), count);
  }
};

KERNEL(leaked_tensor_alloc) {
  Queue k(in, count);
  LocalTensor<float> a = k.queue.AllocTensor<float>();
  DataCopy(a, k.from, 64);
}

KERNEL(queue_state_free_twice) {
  Queue k(in, count);
  LocalTensor<float> a = k.queue.AllocTensor<float>();
  DataCopy(a, k.from, 64);
  k.queue.EnQue(a);
  a = k.queue.DeQue<float>();
  k.queue.FreeTensor(a);
  k.queue.FreeTensor(a);
}

KERNEL(queue_state_empty) {
  Queue k(in, count);
  LocalTensor<float> a = k.queue.DeQue<float>();
  k.queue.FreeTensor(a);
}

KERNEL(queue_state_too_many) {
  Queue k(in, count);
  for (int i = 0; i < 3; ++i) {
    LocalTensor<float> a = k.queue.AllocTensor<float>();
    k.queue.EnQue(a);
  }
}

KERNEL(freed_memory_read) {
  Queue k(in, count);
  LocalTensor<float> a = k.queue.AllocTensor<float>();
  DataCopy(a, k.from, 64);
  k.queue.EnQue(a);
  a = k.queue.DeQue<float>();
  k.queue.FreeTensor(a);
  Adds(a, a, 1.0f, 64);
}

// The second tensor in this place has not been written, though its bytes hold what the first one left.
KERNEL(uninitialized_stale_tensor) {
  Queue k(in, count);
  for (int i = 0; i < 3; ++i) {
    LocalTensor<float> a = k.queue.AllocTensor<float>();
    if (i < 2) DataCopy(a, k.from, 64);
    k.queue.EnQue(a);
    a = k.queue.DeQue<float>();
    Adds(a, a, 1.0f, 64);
    k.queue.FreeTensor(a);
  }
}
