// c = a b, fp16 to fp32, of one tile, twice: through queues at all positions of the cube, and with flags by hand.
#include "kernel_operator.h"

using namespace AscendC;

constexpr uint32_t kCube = 16;
constexpr uint32_t kFractal = kCube * kCube;

// A row of fractals of a for each 16 rows, and a row of transposed fractals of b for each 16 of k.
__aicore__ inline void LoadRows(LocalTensor<half>& to, LocalTensor<half>& from, uint32_t rows, uint32_t columns,
                                bool transpose) {
  LoadData2DParams load;
  load.repeatTimes = static_cast<uint8_t>(columns / kCube);
  load.srcStride = static_cast<uint16_t>(rows / kCube);
  load.ifTranspose = transpose;
  for (uint32_t i = 0; i < rows / kCube; ++i) LoadData(to[i * columns * kCube], from[i * kFractal], load);
}

__aicore__ inline Nd2NzParams Columns(uint32_t rows, uint32_t columns) {
  const auto height = static_cast<uint16_t>(rows);
  const auto width = static_cast<uint16_t>(columns);
  return Nd2NzParams(1, height, width, 0, width, height, 1, 0);
}

__aicore__ inline MmadParams Product(uint32_t m, uint32_t n, uint32_t k, bool first) {
  MmadParams product;
  product.m = static_cast<uint16_t>(m);
  product.n = static_cast<uint16_t>(n);
  product.k = static_cast<uint16_t>(k);
  product.cmatrixInitVal = first;
  return product;
}

__aicore__ inline void ToUb(const LocalTensor<float>& ub, const LocalTensor<float>& l0c, uint32_t m, uint32_t n) {
  DataCopyEnhancedParams matrix;
  matrix.blockMode = BlockMode::BLOCK_MODE_MATRIX;
  DataCopy(ub, l0c, DataCopyParams(1, static_cast<uint16_t>(m * n / kFractal), 0, 0), matrix);
}

__aicore__ inline void ToGm(const GlobalTensor<float>& gm, const LocalTensor<float>& ub, uint32_t m, uint32_t n) {
  const auto height = static_cast<uint16_t>(m);
  const auto width = static_cast<uint16_t>(n);
  DataCopy(gm, ub, Nz2NdParamsFull(1, height, width, 1, height, width, 1));
}

class MatmulThroughQueues {
 public:
  __aicore__ inline void Init(GM_ADDR a, GM_ADDR b, GM_ADDR c, uint32_t m, uint32_t n, uint32_t k) {
    m_ = m;
    n_ = n;
    k_ = k;
    a_.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(a));
    b_.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(b));
    c_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(c));
    pipe_.InitBuffer(a1_, 1, m * k * sizeof(half));
    pipe_.InitBuffer(a2_, 1, m * k * sizeof(half));
    pipe_.InitBuffer(b1_, 1, k * n * sizeof(half));
    pipe_.InitBuffer(b2_, 1, k * n * sizeof(half));
    pipe_.InitBuffer(co1_, 1, m * n * sizeof(float));
    pipe_.InitBuffer(co2_, 1, m * n * sizeof(float));
  }

  __aicore__ inline void Process() {
    CopyIn();
    Split();
    Compute();
    Aggregate();
    CopyOut();
  }

 private:
  __aicore__ inline void CopyIn() {
    LocalTensor<half> a = a1_.AllocTensor<half>();
    LocalTensor<half> b = b1_.AllocTensor<half>();
    DataCopy(a, a_, Columns(m_, k_));
    const DataCopyParams column(static_cast<uint16_t>(k_), 1, static_cast<uint16_t>(n_ / kCube - 1), 0);
    for (uint32_t i = 0; i < n_ / kCube; ++i) DataCopy(b[i * k_ * kCube], b_[i * kCube], column);
    a1_.EnQue(a);
    b1_.EnQue(b);
  }
  __aicore__ inline void Split() {
    LocalTensor<half> a1 = a1_.DeQue<half>();
    LocalTensor<half> a2 = a2_.AllocTensor<half>();
    LoadRows(a2, a1, m_, k_, false);
    a2_.EnQue(a2);
    a1_.FreeTensor(a1);
    LocalTensor<half> b1 = b1_.DeQue<half>();
    LocalTensor<half> b2 = b2_.AllocTensor<half>();
    LoadRows(b2, b1, k_, n_, true);
    b2_.EnQue(b2);
    b1_.FreeTensor(b1);
  }
  __aicore__ inline void Compute() {
    LocalTensor<half> a = a2_.DeQue<half>();
    LocalTensor<half> b = b2_.DeQue<half>();
    LocalTensor<float> c = co1_.AllocTensor<float>();
    Mmad(c, a, b, Product(m_, n_, k_, true));
    co1_.EnQue(c);
    a2_.FreeTensor(a);
    b2_.FreeTensor(b);
  }
  __aicore__ inline void Aggregate() {
    LocalTensor<float> co1 = co1_.DeQue<float>();
    LocalTensor<float> co2 = co2_.AllocTensor<float>();
    ToUb(co2, co1, m_, n_);
    co2_.EnQue(co2);
    co1_.FreeTensor(co1);
  }
  __aicore__ inline void CopyOut() {
    LocalTensor<float> c = co2_.DeQue<float>();
    ToGm(c_, c, m_, n_);
    co2_.FreeTensor(c);
  }

  TPipe pipe_;
  TQue<TPosition::A1, 1, 1> a1_;  // filled by ND to NZ
  TQue<TPosition::A2, 1> a2_;
  TQue<TPosition::B1, 1> b1_;
  TQue<TPosition::B2, 1> b2_;
  TQue<TPosition::CO1, 1> co1_;
  TQue<TPosition::CO2, 1> co2_;
  GlobalTensor<half> a_, b_;
  GlobalTensor<float> c_;
  uint32_t m_ = 0, n_ = 0, k_ = 0;
};

extern "C" __global__ __aicore__ void matmul_queue(GM_ADDR a, GM_ADDR b, GM_ADDR c, uint32_t m, uint32_t n,
                                                   uint32_t k) {
  MatmulThroughQueues kernel;
  kernel.Init(a, b, c, m, n, k);
  kernel.Process();
}

// In steps of 16 of k, which add up in L0C.
extern "C" __global__ __aicore__ void matmul_flags(GM_ADDR a, GM_ADDR b, GM_ADDR c, uint32_t m, uint32_t n,
                                                   uint32_t k) {
  GlobalTensor<half> from_a, from_b;
  GlobalTensor<float> to_c;
  from_a.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(a));
  from_b.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(b));
  to_c.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(c));
  TPipe pipe;
  TBuf<TPosition::A1> l1_a;
  TBuf<TPosition::B1> l1_b;
  TBuf<TPosition::A2> l0_a;
  TBuf<TPosition::B2> l0_b;
  TBuf<TPosition::CO1> l0_c;
  TBuf<TPosition::CO2> ub;
  pipe.InitBuffer(l1_a, m * kCube * sizeof(half));
  pipe.InitBuffer(l1_b, n * kCube * sizeof(half));
  pipe.InitBuffer(l0_a, m * kCube * sizeof(half));
  pipe.InitBuffer(l0_b, n * kCube * sizeof(half));
  pipe.InitBuffer(l0_c, m * n * sizeof(float));
  pipe.InitBuffer(ub, m * n * sizeof(float));
  LocalTensor<half> a1 = l1_a.Get<half>(), b1 = l1_b.Get<half>(), a2 = l0_a.Get<half>(), b2 = l0_b.Get<half>();
  SetFlag<HardEvent::MTE1_MTE2>(EVENT_ID0);
  SetFlag<HardEvent::M_MTE1>(EVENT_ID0);
  for (uint32_t start = 0; start < k; start += kCube) {
    WaitFlag<HardEvent::MTE1_MTE2>(EVENT_ID0);
    DataCopy(a1, from_a[start], DataCopyParams(static_cast<uint16_t>(m), 1, static_cast<uint16_t>(k / kCube - 1), 0));
    const DataCopyParams row(kCube, 1, static_cast<uint16_t>(n / kCube - 1), 0);
    for (uint32_t i = 0; i < n / kCube; ++i) DataCopy(b1[i * kFractal], from_b[start * n + i * kCube], row);
    SetFlag<HardEvent::MTE2_MTE1>(EVENT_ID0);
    WaitFlag<HardEvent::MTE2_MTE1>(EVENT_ID0);
    WaitFlag<HardEvent::M_MTE1>(EVENT_ID0);
    LoadRows(a2, a1, m, kCube, false);
    LoadRows(b2, b1, kCube, n, true);
    SetFlag<HardEvent::MTE1_MTE2>(EVENT_ID0);
    SetFlag<HardEvent::MTE1_M>(EVENT_ID0);
    WaitFlag<HardEvent::MTE1_M>(EVENT_ID0);
    Mmad(l0_c.Get<float>(), a2, b2, Product(m, n, kCube, start == 0));
    PipeBarrier<PIPE_M>();
    SetFlag<HardEvent::M_MTE1>(EVENT_ID0);
  }
  WaitFlag<HardEvent::MTE1_MTE2>(EVENT_ID0);
  WaitFlag<HardEvent::M_MTE1>(EVENT_ID0);
  SetFlag<HardEvent::M_V>(EVENT_ID0);
  WaitFlag<HardEvent::M_V>(EVENT_ID0);
  ToUb(ub.Get<float>(), l0_c.Get<float>(), m, n);
  SetFlag<HardEvent::V_MTE3>(EVENT_ID0);
  WaitFlag<HardEvent::V_MTE3>(EVENT_ID0);
  ToGm(to_c, ub.Get<float>(), m, n);
}
