// z = x + y in tiles, through queues with two buffers each: the next tile loads while this one is added.
#include "kernel_operator.h"

using namespace AscendC;

constexpr uint32_t kTile = 512;
constexpr uint32_t kBuffers = 2;

class AddThroughQueues {
 public:
  __aicore__ inline AddThroughQueues() {}

  __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t count) {
    const uint32_t share = count / GetBlockNum();
    const uint32_t start = share * GetBlockIdx();
    tiles_ = share / kTile;
    x_.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(x) + start, share);
    y_.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(y) + start, share);
    z_.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(z) + start, share);
    pipe_.InitBuffer(queue_x_, kBuffers, kTile * sizeof(half));
    pipe_.InitBuffer(queue_y_, kBuffers, kTile * sizeof(half));
    pipe_.InitBuffer(queue_z_, kBuffers, kTile * sizeof(half));
  }

  __aicore__ inline void Process() {
    for (uint32_t i = 0; i < tiles_; ++i) {
      CopyIn(i);
      Compute();
      CopyOut(i);
    }
  }

 private:
  __aicore__ inline void CopyIn(uint32_t i) {
    LocalTensor<half> x = queue_x_.AllocTensor<half>();
    LocalTensor<half> y = queue_y_.AllocTensor<half>();
    DataCopy(x, x_[i * kTile], kTile);
    DataCopy(y, y_[i * kTile], kTile);
    queue_x_.EnQue(x);
    queue_y_.EnQue(y);
  }

  __aicore__ inline void Compute() {
    LocalTensor<half> x = queue_x_.DeQue<half>();
    LocalTensor<half> y = queue_y_.DeQue<half>();
    LocalTensor<half> z = queue_z_.AllocTensor<half>();
    Add(z, x, y, kTile);
    queue_z_.EnQue<half>(z);
    queue_x_.FreeTensor(x);
    queue_y_.FreeTensor(y);
  }

  __aicore__ inline void CopyOut(uint32_t i) {
    LocalTensor<half> z = queue_z_.DeQue<half>();
    DataCopy(z_[i * kTile], z, kTile);
    queue_z_.FreeTensor(z);
  }

  TPipe pipe_;
  TQue<QuePosition::VECIN, kBuffers> queue_x_, queue_y_;
  TQue<QuePosition::VECOUT, kBuffers> queue_z_;
  GlobalTensor<half> x_, y_, z_;
  uint32_t tiles_ = 0;
};

extern "C" __global__ __aicore__ void add_queue(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t count) {
  AddThroughQueues kernel;
  kernel.Init(x, y, z, count);
  kernel.Process();
}
