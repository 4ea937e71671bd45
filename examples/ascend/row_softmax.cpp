// y = softmax of every row of fp32 x [rows, columns]; columns a multiple of 64, at most 8192.
// Each core takes every blocks-th row; the next row loads while this one is worked on. The row's maximum and sum pass through
// the scalar unit, which has to wait for the vector unit before it may read them.
//
//   hajax sim run examples/ascend/row_softmax.cpp --blocks 4 --args x.npy y.npy:float32[32,1024] 32 1024
#include "kernel_operator.h"

using namespace AscendC;

constexpr uint32_t kMostColumns = 8192;

class RowSoftmax {
 public:
  __aicore__ inline RowSoftmax() {}

  __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, uint32_t rows, uint32_t columns) {
    rows_ = rows;
    columns_ = columns;
    x_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(x), static_cast<uint64_t>(rows) * columns);
    y_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(y), static_cast<uint64_t>(rows) * columns);
    pipe_.InitBuffer(in_buffer_, 2 * kMostColumns * sizeof(float));
    pipe_.InitBuffer(out_buffer_, 2 * kMostColumns * sizeof(float));
    pipe_.InitBuffer(work_buffer_, kMostColumns * sizeof(float));
    pipe_.InitBuffer(statistic_buffer_, 32);
  }

  __aicore__ inline void Process() {
    for (int32_t slot = 0; slot < 2; ++slot) {
      SetFlag<HardEvent::V_MTE2>(slot);
      SetFlag<HardEvent::MTE3_V>(slot);
    }
    int32_t slot = 0;
    for (uint32_t row = GetBlockIdx(); row < rows_; row += GetBlockNum()) {
      ComputeRow(row, slot);
      slot = 1 - slot;
    }
    for (int32_t last = 0; last < 2; ++last) {
      WaitFlag<HardEvent::V_MTE2>(last);
      WaitFlag<HardEvent::MTE3_V>(last);
    }
  }

 private:
  __aicore__ inline void ComputeRow(uint32_t row, int32_t slot) {
    LocalTensor<float> in = in_buffer_.Get<float>()[slot * kMostColumns];
    LocalTensor<float> out = out_buffer_.Get<float>()[slot * kMostColumns];
    LocalTensor<float> work = work_buffer_.Get<float>();
    LocalTensor<float> statistic = statistic_buffer_.Get<float>();
    const uint64_t start = static_cast<uint64_t>(row) * columns_;
    const int32_t count = static_cast<int32_t>(columns_);

    WaitFlag<HardEvent::V_MTE2>(slot);
    DataCopy(in, x_[start], columns_);
    SetFlag<HardEvent::MTE2_V>(slot);

    WaitFlag<HardEvent::MTE2_V>(slot);
    ReduceMax(statistic, in, work, count);
    const float largest = ReadBack(statistic);
    WaitFlag<HardEvent::MTE3_V>(slot);
    Adds(out, in, -largest, count);
    SetFlag<HardEvent::V_MTE2>(slot);
    PipeBarrier<PIPE_V>();
    Exp(out, out, count);
    PipeBarrier<PIPE_V>();
    ReduceSum(statistic, out, work, count);
    const float sum = ReadBack(statistic);
    Muls(out, out, 1.0f / sum, count);
    SetFlag<HardEvent::V_MTE3>(slot);

    WaitFlag<HardEvent::V_MTE3>(slot);
    DataCopy(y_[start], out, columns_);
    SetFlag<HardEvent::MTE3_V>(slot);
  }

  // The scalar unit reads what the vector unit has just written; what the vector unit does next must not overtake it.
  __aicore__ inline float ReadBack(const LocalTensor<float>& statistic) {
    SetFlag<HardEvent::V_S>(0);
    WaitFlag<HardEvent::V_S>(0);
    const float value = statistic.GetValue(0);
    SetFlag<HardEvent::S_V>(0);
    WaitFlag<HardEvent::S_V>(0);
    return value;
  }

  TPipe pipe_;
  TBuf<TPosition::VECCALC> in_buffer_, out_buffer_, work_buffer_, statistic_buffer_;
  GlobalTensor<float> x_, y_;
  uint32_t rows_ = 0, columns_ = 0;
};

extern "C" __global__ __aicore__ void row_softmax(GM_ADDR x, GM_ADDR y, uint32_t rows, uint32_t columns) {
  RowSoftmax kernel;
  kernel.Init(x, y, rows, columns);
  kernel.Process();
}
