// Loops that copy one tile of 192 KiB over a path, again and again: what path_bandwidth.py times. One core.
#include "kernel_operator.h"

using namespace AscendC;

namespace {

constexpr uint32_t kTile = 192 * 1024;  // bytes
constexpr uint32_t kElements = kTile / sizeof(half);
constexpr uint16_t kBlocks = kTile / 32;  // DataCopy's unit
constexpr int32_t kSlots = 5;             // tiles that L1 holds: so many copies need no order among them

class Tiles {
 public:
  __aicore__ inline explicit Tiles(GM_ADDR tile) {
    global_.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(tile), kElements);
    pipe_.InitBuffer(ub_buffer_, kTile);
    pipe_.InitBuffer(l1_buffer_, kSlots * kTile);
    ub_ = ub_buffer_.Get<half>();
    l1_ = l1_buffer_.Get<half>();
  }

  __aicore__ inline void Fill() {
    DataCopy(ub_, global_, params_);
    SetFlag<HardEvent::MTE2_MTE3>(EVENT_ID0);
    WaitFlag<HardEvent::MTE2_MTE3>(EVENT_ID0);
  }

  __aicore__ inline void UbToL1(int32_t rounds) {
    for (int32_t round = 0; round < rounds; ++round) {
      for (int32_t slot = 0; slot < kSlots; ++slot) DataCopy(l1_[slot * kElements], ub_, params_);
      PipeBarrier<PIPE_MTE3>();
    }
  }

  __aicore__ inline void GmToL1(int32_t rounds) {
    for (int32_t round = 0; round < rounds; ++round) {
      for (int32_t slot = 0; slot < kSlots; ++slot) DataCopy(l1_[slot * kElements], global_, params_);
      PipeBarrier<PIPE_MTE2>();
    }
  }

  // Each leg needs what the one before has moved.
  __aicore__ inline void UbToGmToL1(int32_t rounds) {
    for (int32_t copy = 0; copy < rounds * kSlots; ++copy) {
      DataCopy(global_, ub_, params_);
      SetFlag<HardEvent::MTE3_MTE2>(EVENT_ID0);
      WaitFlag<HardEvent::MTE3_MTE2>(EVENT_ID0);
      DataCopy(l1_, global_, params_);
      SetFlag<HardEvent::MTE2_MTE3>(EVENT_ID0);
      WaitFlag<HardEvent::MTE2_MTE3>(EVENT_ID0);
    }
  }

 private:
  const DataCopyParams params_{1, kBlocks, 0, 0};
  TPipe pipe_;
  TBuf<TPosition::VECCALC> ub_buffer_;
  TBuf<TPosition::A1> l1_buffer_;
  GlobalTensor<half> global_;
  LocalTensor<half> ub_;
  LocalTensor<half> l1_;
};

}  // namespace

extern "C" __global__ __aicore__ void ub_to_l1(GM_ADDR tile, int32_t rounds) {
  Tiles tiles(tile);
  tiles.Fill();
  tiles.UbToL1(rounds);
}

extern "C" __global__ __aicore__ void gm_to_l1(GM_ADDR tile, int32_t rounds) {
  Tiles tiles(tile);
  tiles.Fill();
  tiles.GmToL1(rounds);
}

extern "C" __global__ __aicore__ void ub_to_gm_to_l1(GM_ADDR tile, int32_t rounds) {
  Tiles tiles(tile);
  tiles.Fill();
  tiles.UbToGmToL1(rounds);
}
