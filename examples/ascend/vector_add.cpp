// z = x + y on all cores: each takes every blocks-th tile, with two tiles in flight so that the copies of one run beside
// the addition of the other.
//
//   hajax sim run examples/ascend/vector_add.cpp --blocks 8 --args x.npy y.npy z.npy:float32[100000] 100000
#include "kernel_operator.h"

using namespace AscendC;

constexpr uint32_t kTile = 4096;      // elements: 16 KiB of float
constexpr uint32_t kBlockFloats = 8;  // elements in 32 bytes, the unit of a copy

class VectorAdd {
 public:
  __aicore__ inline VectorAdd() {}

  __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t count) {
    count_ = count;
    x_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(x), count);
    y_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(y), count);
    z_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(z), count);
    pipe_.InitBuffer(x_buffer_, 2 * kTile * sizeof(float));
    pipe_.InitBuffer(y_buffer_, 2 * kTile * sizeof(float));
    pipe_.InitBuffer(z_buffer_, 2 * kTile * sizeof(float));
  }

  __aicore__ inline void Process() {
    LocalTensor<float> x = x_buffer_.Get<float>();
    LocalTensor<float> y = y_buffer_.Get<float>();
    LocalTensor<float> z = z_buffer_.Get<float>();
    for (int32_t slot = 0; slot < 2; ++slot) {
      SetFlag<HardEvent::V_MTE2>(slot);  // the inputs' slot is free
      SetFlag<HardEvent::MTE3_V>(slot);  // the output's slot is free
    }
    int32_t slot = 0;
    for (uint32_t start = GetBlockIdx() * kTile; start < count_; start += GetBlockNum() * kTile) {
      const uint32_t length = count_ - start < kTile ? count_ - start : kTile;
      const uint32_t padded = (length + kBlockFloats - 1) / kBlockFloats * kBlockFloats;
      const uint32_t at = slot * kTile;
      WaitFlag<HardEvent::V_MTE2>(slot);
      DataCopy(x[at], x_[start], padded);
      DataCopy(y[at], y_[start], padded);
      SetFlag<HardEvent::MTE2_V>(slot);

      WaitFlag<HardEvent::MTE2_V>(slot);
      WaitFlag<HardEvent::MTE3_V>(slot);
      Add(z[at], x[at], y[at], static_cast<int32_t>(padded));
      SetFlag<HardEvent::V_MTE2>(slot);
      SetFlag<HardEvent::V_MTE3>(slot);

      WaitFlag<HardEvent::V_MTE3>(slot);
      DataCopy(z_[start], z[at], padded);
      SetFlag<HardEvent::MTE3_V>(slot);
      slot = 1 - slot;
    }
    for (int32_t last = 0; last < 2; ++last) {
      WaitFlag<HardEvent::V_MTE2>(last);
      WaitFlag<HardEvent::MTE3_V>(last);
    }
  }

 private:
  TPipe pipe_;
  TBuf<TPosition::VECCALC> x_buffer_, y_buffer_, z_buffer_;
  GlobalTensor<float> x_, y_, z_;
  uint32_t count_ = 0;
};

// count must be a multiple of 8: copies move whole 32-byte blocks.
extern "C" __global__ __aicore__ void vector_add(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t count) {
  VectorAdd kernel;
  kernel.Init(x, y, z, count);
  kernel.Process();
}
