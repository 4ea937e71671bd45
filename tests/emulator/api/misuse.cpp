// Queues, buffers and event ids used wrongly, chosen by number; 0 is right.
#include "kernel_operator.h"

using namespace AscendC;

extern "C" __global__ __aicore__ void misuse(GM_ADDR x, uint32_t which) {
  GlobalTensor<half> gm;
  gm.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(x), 64);
  TPipe pipe;
  TQue<TPosition::VECIN, 1> queue, other;
  TQue<TPosition::VECOUT, 1> out;
  TBuf<> buffer;
  if (which == 1) {
    queue.AllocTensor<half>();  // before InitBuffer
  }
  if (which == 2) {
    pipe.InitBuffer(queue, 3, 100 * 1024);  // more than UB has
  }
  pipe.InitBuffer(queue, which == 3 ? 2 : 1, 128);
  pipe.InitBuffer(other, 1, 128);
  pipe.InitBuffer(out, 1, 128);
  if (which == 4) {
    queue.DeQue<half>();  // of an empty queue
  }
  LocalTensor<half> in = queue.AllocTensor<half>();
  DataCopy(in, gm, 64);
  if (which == 5) {
    queue.AllocTensor<half>();  // with no free buffer
  }
  if (which == 6) {
    other.EnQue(in);  // into another's queue
  }
  queue.EnQue(in);
  if (which == 3) {
    LocalTensor<half> more = queue.AllocTensor<half>();
    queue.EnQue(more);  // deeper than the queue is
  }
  if (which == 7) {
    queue.EnQue(in);  // twice
  }
  if (which == 8) {
    queue.FreeTensor(in);  // without DeQue
  }
  in = queue.DeQue<half>();
  LocalTensor<half> result = out.AllocTensor<half>();
  Adds(result, in, half(1), 64);
  out.EnQue(result);
  if (which == 9) {
    return;  // in is not freed
  }
  queue.FreeTensor(in);
  if (which == 10) {
    queue.FreeTensor(in);  // twice
  }
  if (which == 11) {
    Adds(in, in, half(1), 64);  // after FreeTensor
  }
  if (which == 12) {
    buffer.Get<half>();  // before InitBuffer
  }
  if (which == 13) {
    for (int i = 0; i < 9; ++i) pipe.AllocEventID<HardEvent::V_S>();  // there are eight
  }
  if (which == 14) {
    pipe.ReleaseEventID<HardEvent::V_S>(2);  // nobody has it
  }
  if (which == 15) {
    SetFlag<HardEvent::V_S>(8);
  }
  if (which == 20) {
    SetFlag<HardEvent::V_S>(6);  // 310B's system has it
  }
  if (which == 16) {
    pipe.Destroy();  // result still waits in the queue
  }
  if (which == 17) {
    pipe.InitBuffer(buffer, 128);
    buffer.Get<half>(65);
  }
  result = out.DeQue<half>();
  DataCopy(gm, result, 64);
  out.FreeTensor(result);
  if (which == 18) {
    ascendc_assert(result.GetSize() == 65);
  }
  if (which == 19) {
    LocalTensor<half>(TPosition::VECCALC, 16, 16);
  }
}

// Two phases in the same memory.
extern "C" __global__ __aicore__ void phases(GM_ADDR x) {
  GlobalTensor<half> gm;
  gm.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(x), 64);
  TPipe pipe;
  for (int i = 0; i < 3; ++i) {
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> queue;
    pipe.InitBuffer(queue, 2, 100 * 1024);
    LocalTensor<half> tensor = queue.AllocTensor<half>();
    DataCopy(tensor, gm, 64);
    queue.EnQue<TPosition::GM, TPosition::VECIN>(tensor);
    tensor = queue.DeQue<TPosition::GM, TPosition::VECIN, half>();
    Adds(tensor, tensor, half(1), 64);
    queue.EnQue<TPosition::VECOUT, TPosition::GM>(tensor);
    tensor = queue.DeQue<TPosition::VECOUT, TPosition::GM, half>();
    DataCopy(gm, tensor, 64);
    queue.FreeTensor(tensor);
    pipe.Reset();
    SetFlag<HardEvent::MTE3_MTE2>(EVENT_ID0);
    WaitFlag<HardEvent::MTE3_MTE2>(EVENT_ID0);
  }
}
