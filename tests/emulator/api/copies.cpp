// DataCopy in its forms, loads and fills of the cube's memories, results of the cube with conversions.
#include "frame.h"

using namespace AscendC;

namespace {

template <HardEvent event>
void Then() {
  SetFlag<event>(EVENT_ID0);
  WaitFlag<event>(EVENT_ID0);
}

template <typename T>
GlobalTensor<T> In(GM_ADDR address) {
  GlobalTensor<T> tensor;
  tensor.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(address));
  return tensor;
}

// GM (row by row) to L1 (columns of 32 bytes) to UB to GM, as it lies.
template <typename T>
void NdToNz(GM_ADDR x, GM_ADDR y, uint32_t matrices, uint32_t rows, uint32_t columns, uint32_t src_row) {
  constexpr auto kElements = static_cast<uint32_t>(32 / sizeof(T));
  const uint32_t blocks = (columns + kElements - 1) / kElements;
  const uint32_t size = rows * blocks * kElements;
  TPipe pipe;
  TBuf<TPosition::A1> l1;
  TBuf<TPosition::VECCALC> ub;
  pipe.InitBuffer(l1, static_cast<uint32_t>(matrices * size * sizeof(T)));
  pipe.InitBuffer(ub, static_cast<uint32_t>(matrices * size * sizeof(T)));
  DataCopy(l1.Get<T>(), In<T>(x),
           Nd2NzParams(static_cast<uint16_t>(matrices), static_cast<uint16_t>(rows), static_cast<uint16_t>(columns),
                       static_cast<uint16_t>(rows * src_row), static_cast<uint16_t>(src_row),
                       static_cast<uint16_t>(rows), 1, static_cast<uint16_t>(size)));
  Then<HardEvent::MTE3_MTE1>();
  DataCopy(ub.Get<T>(), l1.Get<T>(), matrices * size);
  Then<HardEvent::MTE1_MTE3>();
  DataCopy(In<T>(y), ub.Get<T>(), matrices * size);
}

// x and y: half, float or int32 by `which`.
void Slices(GM_ADDR x, GM_ADDR y) {
  // Three blocks, then three more behind a gap of 7 floats, in every second of three rows of 87.
  const SliceInfo from[] = {{16, 70, 7, 3, 87}, {0, 2, 1, 1, 3}};
  const SliceInfo to[] = {{0, 47, 0, 3, 48}, {0, 1, 0, 1, 2}};
  TPipe pipe;
  TBuf<TPosition::VECIN> ub;
  pipe.InitBuffer(ub, 96 * sizeof(float));
  DataCopy(ub.Get<float>(), In<float>(x), to, from, 2);
  Then<HardEvent::MTE2_MTE3>();
  DataCopy(In<float>(y), ub.Get<float>(), to, to, 2);
}

// C = A I with C in float, out as half with a ReLU, or as float; C starts as a bias if asked for.
void Product(GM_ADDR x, GM_ADDR y, uint32_t which) {
  TPipe pipe;
  TBuf<TPosition::A1> l1;
  TBuf<TPosition::A2> l0_a;
  TBuf<TPosition::B2> l0_b;
  TBuf<TPosition::CO1> l0_c;
  TBuf<TPosition::VECCALC> ub, bias;
  pipe.InitBuffer(l1, 512);
  pipe.InitBuffer(l0_a, 512);
  pipe.InitBuffer(l0_b, 512);
  pipe.InitBuffer(l0_c, 1024);
  pipe.InitBuffer(ub, 1024);
  pipe.InitBuffer(bias, 64);
  LoadData2DParams whole;
  whole.repeatTimes = 1;
  LoadData(l1.Get<half>(), In<half>(x), whole);
  Then<HardEvent::MTE2_MTE1>();
  LoadData(l0_a.Get<half>(), l1.Get<half>(), whole);
  InitConstValue(l0_b.Get<half>(), InitConstValueParams<half>(1, half(0.25f)));
  MmadParams product;
  product.m = product.n = product.k = 16;
  if (which == 2) {
    CreateVecIndex(bias.Get<float>(), 1.0f, 16U);
    PipeBarrier<PIPE_V>();
    BroadCastVecToMM(l0_c.Get<float>(), bias.Get<float>(), 1, 1, 0, 0);
    Then<HardEvent::V_M>();
    product.cmatrixInitVal = false;
  }
  Then<HardEvent::MTE1_M>();
  Mmad(l0_c.Get<float>(), l0_a.Get<half>(), l0_b.Get<half>(), product);
  Then<HardEvent::M_V>();
  DataCopyEnhancedParams matrix;
  matrix.blockMode = BlockMode::BLOCK_MODE_MATRIX;
  matrix.isRelu = which != 0;
  const DataCopyParams one(1, 1, 0, 0);
  if (which == 1) {
    DataCopy(ub.Get<half>(), l0_c.Get<float>(), one, matrix);
  } else {
    DataCopy(ub.Get<float>(), l0_c.Get<float>(), one, matrix);
  }
  Then<HardEvent::V_MTE3>();
  DataCopy(In<half>(y), ub.Get<half>(), which == 1 ? 256U : 512U);
}

// UB to L0C (half to float) and back.
void Preset(GM_ADDR x, GM_ADDR y) {
  TPipe pipe;
  TBuf<TPosition::CO1> l0_c;
  TBuf<TPosition::VECCALC> from, to;
  pipe.InitBuffer(l0_c, 1024);
  pipe.InitBuffer(from, 512);
  pipe.InitBuffer(to, 1024);
  DataCopy(from.Get<half>(), In<half>(x), 256);
  Then<HardEvent::MTE2_V>();
  DataCopyEnhancedParams matrix;
  matrix.blockMode = BlockMode::BLOCK_MODE_MATRIX;
  DataCopy(l0_c.Get<float>(), from.Get<half>(), DataCopyParams(1, 1, 0, 0), matrix);
  PipeBarrier<PIPE_V>();
  DataCopy(to.Get<float>(), l0_c.Get<float>(), DataCopyParams(1, 1, 0, 0), matrix);
  Then<HardEvent::V_MTE3>();
  DataCopy(In<float>(y), to.Get<float>(), 256);
}

}  // namespace

extern "C" __global__ __aicore__ void nd_to_nz(GM_ADDR x, GM_ADDR y, uint32_t bytes, uint32_t matrices, uint32_t rows,
                                               uint32_t columns, uint32_t src_row) {
  if (bytes == 2) {
    NdToNz<half>(x, y, matrices, rows, columns, src_row);
  } else {
    NdToNz<float>(x, y, matrices, rows, columns, src_row);
  }
}

extern "C" __global__ __aicore__ void nz_to_nd(GM_ADDR x, GM_ADDR y, uint32_t rows, uint32_t columns,
                                               uint32_t dst_row) {
  TPipe pipe;
  TBuf<TPosition::VECOUT> ub;
  pipe.InitBuffer(ub, static_cast<uint32_t>(rows * columns * sizeof(half)));
  DataCopy(ub.Get<half>(), In<half>(x), rows * columns);
  Then<HardEvent::MTE2_MTE3>();
  DataCopy(In<half>(y), ub.Get<half>(),
           Nz2NdParamsFull(1, static_cast<uint16_t>(rows), static_cast<uint16_t>(columns), 1,
                           static_cast<uint16_t>(rows), static_cast<uint16_t>(dst_row), 1));
}

extern "C" __global__ __aicore__ void slices(GM_ADDR x, GM_ADDR y) { Slices(x, y); }
extern "C" __global__ __aicore__ void product(GM_ADDR x, GM_ADDR y, uint32_t which) { Product(x, y, which); }
extern "C" __global__ __aicore__ void preset(GM_ADDR x, GM_ADDR y) { Preset(x, y); }

// Rows of two blocks with gaps on both sides; UB to L1 to UB in between.
extern "C" __global__ __aicore__ void strided(GM_ADDR x, GM_ADDR y) {
  TPipe pipe;
  TBuf<TPosition::VECCALC> ub;
  TBuf<TPosition::A1> l1;
  pipe.InitBuffer(ub, 1024);
  pipe.InitBuffer(l1, 512);
  LocalTensor<int32_t> first = ub.Get<int32_t>(64), second = ub.GetWithOffset<int32_t>(64, 512);
  DataCopy(first, In<int32_t>(x), DataCopyParams(4, 2, 1, 0));
  Then<HardEvent::MTE2_MTE3>();
  DataCopy(l1.Get<int32_t>(), first, DataCopyParams(4, 2, 0, 2));
  Then<HardEvent::MTE3_MTE1>();
  DataCopy(second, l1.Get<int32_t>(), DataCopyParams(4, 2, 2, 0));
  Then<HardEvent::MTE1_V>();
  DataCopy(first, second, 64);
  Then<HardEvent::V_MTE3>();
  DataCopy(In<int32_t>(y), first, DataCopyParams(4, 2, 0, 1));
}

// A count that is not whole blocks of 32 bytes.
extern "C" __global__ __aicore__ void odd_count(GM_ADDR x, uint32_t count) {
  TPipe pipe;
  TBuf<TPosition::VECCALC> ub;
  pipe.InitBuffer(ub, 1024);
  DataCopy(ub.Get<half>(), In<half>(x), count);
}

// From GM straight to L0C.
extern "C" __global__ __aicore__ void no_path(GM_ADDR x) {
  TPipe pipe;
  TBuf<TPosition::CO1> l0_c;
  pipe.InitBuffer(l0_c, 1024);
  DataCopy(l0_c.Get<float>(), In<float>(x), 8);
}
