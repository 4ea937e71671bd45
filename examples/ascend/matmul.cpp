// c = a b for fp16 a [m, k] and b [k, n], fp32 c [m, n], all row-major in GM; m, n and k multiples of 16.
// Each core takes every blocks-th 128 x 128 tile of c. Panels of a and b pass through L1 as 16 x 16 fractals (NZ) and on to
// L0A and L0B; the cube accumulates over k in L0C; the result leaves through UB, as a 310P has no other way out of L0C.
//
//   hajax sim run examples/ascend/matmul.cpp --blocks 8 --args a.npy b.npy c.npy:float32[256,384] 256 384 512
#include "kernel_operator.h"

using namespace AscendC;

constexpr uint32_t kTile = 128;   // rows, columns and depth of a tile
constexpr uint32_t kCube = 16;    // edge of a fractal
constexpr uint32_t kFractal = kCube * kCube;
constexpr uint32_t kPanel = kTile * kTile;  // elements
constexpr uint32_t kFewTiles = 10;  // products of fewer fractals need a barrier before the next one adds to them

class Matmul {
 public:
  __aicore__ inline Matmul() {}

  __aicore__ inline void Init(GM_ADDR a, GM_ADDR b, GM_ADDR c, uint32_t m, uint32_t n, uint32_t k) {
    m_ = m;
    n_ = n;
    k_ = k;
    a_.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(a), static_cast<uint64_t>(m) * k);
    b_.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(b), static_cast<uint64_t>(k) * n);
    c_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(c), static_cast<uint64_t>(m) * n);
    pipe_.InitBuffer(l1a_, 2 * kPanel * sizeof(half));
    pipe_.InitBuffer(l1b_, 2 * kPanel * sizeof(half));
    pipe_.InitBuffer(l0a_, 2 * kPanel * sizeof(half));
    pipe_.InitBuffer(l0b_, 2 * kPanel * sizeof(half));
    pipe_.InitBuffer(l0c_, kPanel * sizeof(float));
    pipe_.InitBuffer(out_, kPanel * sizeof(float));
  }

  __aicore__ inline void Process() {
    for (int32_t slot = 0; slot < 2; ++slot) {
      SetFlag<HardEvent::MTE1_MTE2>(slot);  // the L1 slot is free
      SetFlag<HardEvent::M_MTE1>(slot);     // the L0 slot is free
    }
    SetFlag<HardEvent::V_M>(0);     // L0C is free
    SetFlag<HardEvent::MTE3_V>(0);  // the output buffer is free
    const uint32_t columns = (n_ + kTile - 1) / kTile;
    const uint32_t tiles = (m_ + kTile - 1) / kTile * columns;
    for (uint32_t tile = GetBlockIdx(); tile < tiles; tile += GetBlockNum()) {
      ComputeTile(tile / columns * kTile, tile % columns * kTile);
    }
    for (int32_t slot = 0; slot < 2; ++slot) {
      WaitFlag<HardEvent::MTE1_MTE2>(slot);
      WaitFlag<HardEvent::M_MTE1>(slot);
    }
    WaitFlag<HardEvent::V_M>(0);
    WaitFlag<HardEvent::MTE3_V>(0);
  }

 private:
  __aicore__ static inline uint32_t Least(uint32_t x, uint32_t y) { return x < y ? x : y; }

  __aicore__ inline void ComputeTile(uint32_t row, uint32_t column) {
    const uint32_t rows = Least(kTile, m_ - row);
    const uint32_t cols = Least(kTile, n_ - column);
    WaitFlag<HardEvent::V_M>(0);
    for (uint32_t start = 0; start < k_; start += kTile) {
      const uint32_t depth = Least(kTile, k_ - start);
      CopyIn(row, column, start, rows, cols, depth);
      Load(rows, cols, depth);
      Multiply(rows, cols, depth, start == 0);
      slot_ = 1 - slot_;
    }
    SetFlag<HardEvent::M_V>(0);
    CopyOut(row, column, rows, cols);
  }

  // GM to L1: one strided copy for every 16 columns makes the row-major panel a column of fractals.
  __aicore__ inline void CopyIn(uint32_t row, uint32_t column, uint32_t start, uint32_t rows, uint32_t cols, uint32_t depth) {
    LocalTensor<half> a = l1a_.Get<half>()[slot_ * kPanel];
    LocalTensor<half> b = l1b_.Get<half>()[slot_ * kPanel];
    WaitFlag<HardEvent::MTE1_MTE2>(slot_);
    for (uint32_t i = 0; i < depth / kCube; ++i) {
      const DataCopyParams gather(static_cast<uint16_t>(rows), 1, static_cast<uint16_t>(k_ / kCube - 1), 0);
      DataCopy(a[i * rows * kCube], a_[static_cast<uint64_t>(row) * k_ + start + i * kCube], gather);
    }
    for (uint32_t i = 0; i < cols / kCube; ++i) {
      const DataCopyParams gather(static_cast<uint16_t>(depth), 1, static_cast<uint16_t>(n_ / kCube - 1), 0);
      DataCopy(b[i * depth * kCube], b_[static_cast<uint64_t>(start) * n_ + column + i * kCube], gather);
    }
    SetFlag<HardEvent::MTE2_MTE1>(slot_);
  }

  // L1 to L0: rows of fractals for a, and rows of transposed fractals for b.
  __aicore__ inline void Load(uint32_t rows, uint32_t cols, uint32_t depth) {
    LocalTensor<half> a1 = l1a_.Get<half>()[slot_ * kPanel];
    LocalTensor<half> b1 = l1b_.Get<half>()[slot_ * kPanel];
    LocalTensor<half> a2 = l0a_.Get<half>()[slot_ * kPanel];
    LocalTensor<half> b2 = l0b_.Get<half>()[slot_ * kPanel];
    WaitFlag<HardEvent::MTE2_MTE1>(slot_);
    WaitFlag<HardEvent::M_MTE1>(slot_);
    LoadData2DParams load;
    load.repeatTimes = static_cast<uint8_t>(depth / kCube);
    load.srcStride = static_cast<uint16_t>(rows / kCube);
    for (uint32_t i = 0; i < rows / kCube; ++i) LoadData(a2[i * depth * kCube], a1[i * kFractal], load);
    load.repeatTimes = static_cast<uint8_t>(cols / kCube);
    load.srcStride = static_cast<uint16_t>(depth / kCube);
    load.ifTranspose = true;
    for (uint32_t i = 0; i < depth / kCube; ++i) LoadData(b2[i * cols * kCube], b1[i * kFractal], load);
    SetFlag<HardEvent::MTE1_MTE2>(slot_);
    SetFlag<HardEvent::MTE1_M>(slot_);
  }

  __aicore__ inline void Multiply(uint32_t rows, uint32_t cols, uint32_t depth, bool first) {
    WaitFlag<HardEvent::MTE1_M>(slot_);
    MmadParams params;
    params.m = static_cast<uint16_t>(rows);
    params.n = static_cast<uint16_t>(cols);
    params.k = static_cast<uint16_t>(depth);
    params.cmatrixInitVal = first;
    if (!first && rows / kCube * (cols / kCube) < kFewTiles) PipeBarrier<PIPE_M>();
    Mmad(l0c_.Get<float>(), l0a_.Get<half>()[slot_ * kPanel], l0b_.Get<half>()[slot_ * kPanel], params);
    SetFlag<HardEvent::M_MTE1>(slot_);
  }

  // L0C to UB as it lies, then each column of fractals to its 16 columns of c.
  __aicore__ inline void CopyOut(uint32_t row, uint32_t column, uint32_t rows, uint32_t cols) {
    LocalTensor<float> out = out_.Get<float>();
    WaitFlag<HardEvent::M_V>(0);
    WaitFlag<HardEvent::MTE3_V>(0);
    DataCopyEnhancedParams matrix;
    matrix.blockMode = BlockMode::BLOCK_MODE_MATRIX;
    const DataCopyParams whole(1, static_cast<uint16_t>(rows / kCube * (cols / kCube)), 0, 0);
    DataCopy(out, l0c_.Get<float>(), whole, matrix);
    SetFlag<HardEvent::V_M>(0);
    SetFlag<HardEvent::V_MTE3>(0);

    WaitFlag<HardEvent::V_MTE3>(0);
    for (uint32_t i = 0; i < cols / kCube; ++i) {
      const DataCopyParams scatter(static_cast<uint16_t>(rows), 2, 0, static_cast<uint16_t>((n_ - kCube) / 8));
      DataCopy(c_[static_cast<uint64_t>(row) * n_ + column + i * kCube], out[i * rows * kCube], scatter);
    }
    SetFlag<HardEvent::MTE3_V>(0);
  }

  TPipe pipe_;
  TBuf<TPosition::A1> l1a_;
  TBuf<TPosition::B1> l1b_;
  TBuf<TPosition::A2> l0a_;
  TBuf<TPosition::B2> l0b_;
  TBuf<TPosition::CO1> l0c_;
  TBuf<TPosition::VECCALC> out_;
  GlobalTensor<half> a_, b_;
  GlobalTensor<float> c_;
  uint32_t m_ = 0, n_ = 0, k_ = 0;
  int32_t slot_ = 0;
};

extern "C" __global__ __aicore__ void matmul(GM_ADDR a, GM_ADDR b, GM_ADDR c, uint32_t m, uint32_t n, uint32_t k) {
  Matmul kernel;
  kernel.Init(a, b, c, m, n, k);
  kernel.Process();
}
