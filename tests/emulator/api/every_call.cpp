// Every call of the API once, in every form: only to be compiled.
#include "kernel_operator.h"

using namespace AscendC;

namespace {

template <typename T>
struct Operands {
  LocalTensor<T> dst, a, b, work;
  GlobalTensor<T> gm;
};

template <typename T>
void Binary(Operands<T>& t, uint64_t* bits) {
  const BinaryRepeatParams p(1, 1, 1, 8, 8, 8);
#define CALL(Name)                           \
  Name(t.dst, t.a, t.b, 64);                 \
  Name(t.dst, t.a, t.b, uint64_t{64}, 2, p); \
  Name<T, false>(t.dst, t.a, t.b, bits, 2, p);
  CALL(Add) CALL(Sub) CALL(Mul) CALL(Max) CALL(Min) if constexpr (SupportType<T, half, float>()) {
    CALL(Div) CALL(FusedMulAdd) CALL(FusedMulAddRelu) CALL(MulAddRelu) t.dst = t.a / t.b;
  }
  if constexpr (SupportType<T, half, float, int16_t>()) {
    CALL(AddRelu) CALL(SubRelu)
  }
  if constexpr (SupportType<T, int16_t>()) {
    CALL(And) CALL(Or) t.dst = t.a & t.b;
    t.dst = t.a | t.b;
  }
#undef CALL
  t.dst = t.a + t.b;
  t.dst = t.a - t.b;
  t.dst = t.a * t.b;
}

template <typename T>
void Unary(Operands<T>& t, uint64_t* bits) {
  const UnaryRepeatParams p(1, 1, 8, 8);
#define CALL(Name)                      \
  Name(t.dst, t.a, 64);                 \
  Name(t.dst, t.a, uint64_t{64}, 2, p); \
  Name<T, false>(t.dst, t.a, bits, 2, p);
  if constexpr (SupportType<T, half, float>()) {
    CALL(Abs) CALL(Exp) CALL(Ln) CALL(Reciprocal) CALL(Sqrt) CALL(Rsqrt)
  }
  if constexpr (SupportType<T, half, float, int32_t>()) {
    CALL(Relu)
  }
  if constexpr (SupportType<T, int16_t>()) {
    CALL(Not)
  }
#undef CALL
}

template <typename T>
void Scalars(Operands<T>& t, uint64_t* bits) {
  const UnaryRepeatParams p;
  const T s = static_cast<T>(2.0f);
#define CALL(Name)                         \
  Name(t.dst, t.a, s, 64);                 \
  Name(t.dst, t.a, s, uint64_t{64}, 2, p); \
  Name<T, false>(t.dst, t.a, s, bits, 2, p);
  CALL(Adds) CALL(Muls) CALL(Maxs) CALL(Mins) if constexpr (SupportType<T, half, float>()) {
    CALL(LeakyRelu)
    Axpy(t.dst, t.a, s, 64);
    Axpy(t.dst, t.a, s, uint64_t{64}, 2, p);
    Axpy<T, T, false>(t.dst, t.a, s, bits, 2, p);
    MulAddDst(t.dst, t.a, t.b, 64);
    MulAddDst(t.dst, t.a, t.b, uint64_t{64}, 2, BinaryRepeatParams());
    MulAddDst(t.dst, t.a, t.b, bits, 2, BinaryRepeatParams());
  }
#undef CALL
  Duplicate(t.dst, s, 64);
  Duplicate(t.dst, s, uint64_t{64}, 2, 1, 8);
  Duplicate<T, false>(t.dst, s, bits, 2, 1, 8);
  CreateVecIndex(t.dst, s, 64U);
  CreateVecIndex(t.dst, s, uint64_t{64}, 2, 1, 8);
  CreateVecIndex(t.dst, s, bits, 2, 1, 8);
}

template <typename T>
void Reductions(Operands<T>& t, uint64_t* bits) {
#define CALL(Name)                  \
  Name(t.dst, t.a, 64, 2, 1, 1, 8); \
  Name(t.dst, t.a, bits, 2, 1, 1, 8);
  CALL(WholeReduceSum)
  CALL(WholeReduceMax)
  CALL(WholeReduceMin)
#undef CALL
#define CALL(Name)                  \
  Name(t.dst, t.a, 2, 64, 1, 1, 8); \
  Name(t.dst, t.a, 2, bits, 1, 1, 8);
  CALL(BlockReduceSum)
  CALL(BlockReduceMax) CALL(BlockReduceMin) CALL(PairReduceSum)
#undef CALL
      RepeatReduceSum(t.dst, t.a, 2, 64, 0, 1, 1, 8);
  ReduceRepeat<ReduceType::MAX>(t.dst, t.a, 64, 2, 1, 1, 8);
  ReduceRepeat<ReduceType::SUM>(t.dst, t.a, bits, 2, 1, 1, 8);
  ReduceDataBlock<ReduceType::MIN>(t.dst, t.a, 64, 2, 1, 1, 8);
  ReduceDataBlock<ReduceType::SUM>(t.dst, t.a, bits, 2, 1, 1, 8);
  ReducePairElem<ReduceType::SUM>(t.dst, t.a, 64, 2, 1, 1, 8);
  ReducePairElem<ReduceType::SUM>(t.dst, t.a, bits, 2, 1, 1, 8);
  ReduceSum(t.dst, t.a, t.work, 200);
  ReduceSum(t.dst, t.a, t.work, 64, 2, 8);
  ReduceSum(t.dst, t.a, t.work, bits, 2, 8);
  ReduceMax(t.dst, t.a, t.work, 200);
  ReduceMax(t.dst, t.a, t.work, 200, true);
  ReduceMax(t.dst, t.a, t.work, 64, 2, 8, true);
  ReduceMin(t.dst, t.a, t.work, 200, true);
  ReduceMin(t.dst, t.a, t.work, bits, 2, 8);
}

template <typename T>
void Moves(Operands<T>& t) {
  const DataCopyParams p(2, 1, 0, 0);
  DataCopy(t.dst, t.gm, 64);
  DataCopy(t.gm, t.dst, 64);
  DataCopy(t.dst, t.a, 64);
  DataCopy(t.dst, t.gm, p);
  DataCopy(t.gm, t.dst, {2, 1, 0, 0});
  DataCopy(t.dst, t.a, p);
  DataCopy(t.dst, t.gm, p, DataCopyEnhancedParams());
  DataCopy(t.gm, t.dst, p, DataCopyEnhancedParams());
  t.dst.SetValue(0, static_cast<T>(1.0f));
  t.dst(1) = t.a(2);
  t.gm.SetValue(0, t.dst.GetValue(0));
  DataCacheCleanAndInvalid<T, CacheLine::SINGLE_CACHE_LINE>(t.gm);
}

void Casts(LocalTensor<half>& h, LocalTensor<float>& f, LocalTensor<int32_t>& i, uint64_t* bits) {
  Cast(f, h, RoundMode::CAST_NONE, 64);
  Cast(h, f, RoundMode::CAST_NONE, 64);
  Cast(h, f, RoundMode::CAST_ODD, uint64_t{64}, 1, {1, 1, 4, 8});
  Cast(i, f, RoundMode::CAST_RINT, bits, 1, {1, 1, 8, 8});
  Cast(f, i, RoundMode::CAST_NONE, 64);
  Cast(i, h, RoundMode::CAST_TRUNC, 64);
  Cast(h.ReinterpretCast<int16_t>(), h, RoundMode::CAST_RINT, 64);
  Cast(h, h.ReinterpretCast<int16_t>(), RoundMode::CAST_NONE, 64);
  Cast(h, h.ReinterpretCast<uint8_t>(), RoundMode::CAST_NONE, 64);
}

template <typename T>
void Gathers(Operands<T>& t, LocalTensor<uint32_t>& offsets, uint64_t* bits) {
  Gather(t.dst, t.a, offsets, 0, 64);
  Gather(t.dst, t.a, offsets, 0, uint64_t{64}, 1, 8);
  Gather(t.dst, t.a, offsets, 0, bits, 1, 8);
  if constexpr (sizeof(T) == 2) Transpose(t.dst, t.a);
  uint64_t dst[16] = {}, src[16] = {};
  TransDataTo5HD<T>(dst, src, TransDataTo5HDParams(false, false, 1, 0, 0));
  LocalTensor<T> from[16], to[16];
  TransDataTo5HD(to, from, TransDataTo5HDParams());
}

void Cube(LocalTensor<half>& l1, LocalTensor<half>& a, LocalTensor<half>& b, LocalTensor<float>& c,
          GlobalTensor<half>& gm) {
  LoadData(a, l1, LoadData2DParams(0, 1, 1, 0, 0, false, 0));
  LoadData(b, gm, LoadData2DParams());
  Mmad(c, a, b, MmadParams());
  InitConstValue(l1, InitConstValueParams<half>(1, half(0)));
  Fill(a, {1, half(0)});
}

void System(LocalTensor<int32_t>& t) {
  SetMaskCount();
  SetVectorMask<half, MaskMode::COUNTER>(0, 128);
  SetVectorMask<half, MaskMode::COUNTER>(128);
  SetMaskNorm();
  SetVectorMask<half>(64);
  SetVectorMask<half>(FULL_MASK, FULL_MASK);
  ResetMask();
  InitSocState();
  SetAtomicAdd<float>();
  SetAtomicType<half>();
  SetAtomicNone();
  DisableDmaAtomic();
  PipeBarrier<PIPE_V>();
  PipeBarrier<PIPE_ALL>();
  SetFlag<HardEvent::MTE2_V>(EVENT_ID0);
  WaitFlag<HardEvent::MTE2_V>(EVENT_ID0);
  TQueSync<PIPE_V, PIPE_MTE3> sync;
  sync.SetFlag(0);
  sync.WaitFlag(0);
  t.SetValue(
      0, static_cast<int32_t>(GetBlockIdx() + GetBlockNum() + GetSubBlockIdx() + GetSubBlockNum() + GetTaskRatio()));
  const int64_t bits =
      ScalarGetCountOfValue<1>(5) + ScalarCountLeadingZero(1) + CountBitsCntSameAsSignBit(1) + ScalarGetSFFValue<0>(1);
  t.SetValue(1, bits + ScalarCast<float, int32_t, RoundMode::CAST_RINT>(1.5f));
  t.SetValue(2, static_cast<float>(ScalarCast<float, half, RoundMode::CAST_ODD>(1.5f)));
  AscendC::printf("%d\n", 1);
  PRINTF("%d\n", 1);
  KERNEL_LOG(KERNEL_ERROR, "%d", 1);
  ASCENDC_ASSERT((bits > 0), { KERNEL_LOG(KERNEL_ERROR, "%d", 1); });
  ascendc_assert(bits > 0);
  ascendc_assert(bits > 0, "%d", 1);
  assert(bits > 0);
  static_assert(CeilDivision(5, 2) == 3 && DivCeil(5, 2) == 3 && AlignUp(5, 4) == 8 && Std::min(1, 2) == 1 &&
                Std::max(1, 2) == 2);
}

void Pipes() {
  TPipe pipe;
  TQue<TPosition::VECIN, 2> in;
  TQue<QuePosition::VECOUT, 2> out;
  TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> through;
  TQue<TPosition::A1, 1> a1;
  TBuf<TPosition::VECCALC> work;
  TBuf<> other;
  pipe.InitBuffer(in, 2, 256);
  pipe.InitBuffer(out, 2, 256);
  pipe.InitBuffer(through, 1, 256);
  pipe.InitBuffer(a1, 2, 512);
  pipe.InitBuffer(work, 256);
  pipe.InitBuffer(other, 256);
  LocalTensor<half> x = in.AllocTensor<half>();
  in.EnQue(x);
  x = in.DeQue<half>();
  in.FreeTensor(x);
  x = through.AllocTensor<half>();
  through.EnQue<TPosition::GM, TPosition::VECIN>(x);
  x = through.DeQue<TPosition::GM, TPosition::VECIN, half>();
  through.FreeTensor(x);
  const bool some = in.VacantInQue() || in.HasTensorInQue() || in.GetTensorCountInQue() > 0 || in.HasIdleBuffer();
  LocalTensor<half> part = work.Get<half>(16)[8];
  part.SetUserTag(some ? 1 : 0);
  part.SetSize(8);
  work.GetWithOffset<float>(8, 32).SetShapeInfo(ShapeInfo());
  const TEventID id = GetTPipePtr()->AllocEventID<HardEvent::V_MTE3>();
  GetTPipePtr()->ReleaseEventID<HardEvent::V_MTE3>(id);
  SetFlag<HardEvent::V_S>(GetTPipePtr()->FetchEventID(HardEvent::V_S));
  pipe.Reset();
  pipe.Destroy();
}

#if __NPU_ARCH__ == 2002
template <typename T>
void Selects(Operands<T>& t, LocalTensor<uint8_t>& mask, uint64_t* bits) {
  const BinaryRepeatParams p;
  const T s = static_cast<T>(1.0f);
  Compare(mask, t.a, t.b, CMPMODE::LT, 256);
  Compare(mask, t.a, t.b, CMPMODE::GT, uint64_t{64}, 1, p);
  Compare(mask, t.a, t.b, CMPMODE::EQ, bits, 1, p);
  Compare(t.a, t.b, CMPMODE::LE, uint64_t{64}, p);
  Compare(t.a, t.b, CMPMODE::LE, bits, p);
  CompareScalar(mask, t.a, s, CMPMODE::GE, 256);
  Compares(mask, t.a, s, CMPMODE::NE, uint64_t{64}, 1, UnaryRepeatParams());
  CompareScalar(mask, t.a, s, CMPMODE::NE, bits, 1, UnaryRepeatParams());
  mask = t.a < t.b;
  mask = t.a != t.b;
  GetCmpMask(mask);
  SetCmpMask(mask);
  Select(t.dst, mask, t.a, t.b, SELMODE::VSEL_TENSOR_TENSOR_MODE, 256);
  Select(t.dst, mask, t.a, s, SELMODE::VSEL_TENSOR_SCALAR_MODE, 256);
  Select(t.dst, mask, t.a, t.b, SELMODE::VSEL_CMPMASK_SPR, uint64_t{64}, 1, p);
  Select(t.dst, mask, t.a, s, SELMODE::VSEL_TENSOR_SCALAR_MODE, bits, 1, p);
  Select<T, SELMODE::VSEL_CMPMASK_SPR>(t.dst, t.a, t.b, 1, p);
  Select(t.dst, mask, t.a, 1, p);
  T value = s;
  uint32_t number = 0;
  GetReduceMaxMinCount<T>(value);
  GetReduceMaxMinCount<T>(number);
}

template <typename T>
void Only310P(Operands<T>& t, LocalTensor<uint32_t>& offsets, uint64_t* bits) {
  Scatter(t.dst, t.a, offsets, 0, 64);
  Scatter(t.dst, t.a, offsets, 0, uint64_t{64}, 1, 8);
  Scatter(t.dst, t.a, offsets, 0, bits, 1, 8);
  Brcb(t.dst, t.a, 1, BrcbRepeatParams(1, 8));
  uint64_t kept = 0;
  GatherMask(t.dst, t.a, 1, false, 0, GatherMaskParams(1, 1, 8, 8), kept);
  if constexpr (sizeof(T) == 4) GatherMask(t.dst, t.a, offsets, true, 70, {1, 2, 8, 8}, kept);
  DataCopy(t.dst, t.gm, Nd2NzParams(1, 16, 16, 0, 16, 16, 1, 0));
  DataCopy(t.gm, t.dst, Nz2NdParamsFull(1, 16, 16, 1, 16, 16, 1));
  const SliceInfo slices[] = {{0, 31, 0, 4, 32}};
  DataCopy(t.dst, t.gm, slices, slices);
  DataCopy(t.gm, t.dst, slices, slices, 1);
  DataCopy(t.dst, t.a, DataCopyParams(), DataCopyEnhancedParams());
  Transpose(t.dst, t.a, LocalTensor<uint8_t>(), TransposeParamsExt(1, 2, 4, 4, TransposeType::TRANSPOSE_NCHW2NHWC));
  if constexpr (SupportType<T, half, float, int32_t>()) BroadCastVecToMM(t.dst, t.a, 1, 1, 0, 0);
}

void Scaled(LocalTensor<half>& h, LocalTensor<float>& f, LocalTensor<int32_t>& i, LocalTensor<int16_t>& s,
            LocalTensor<int8_t>& c, LocalTensor<uint64_t>& scales, uint64_t* bits) {
  Cast(h, i, RoundMode::CAST_NONE, 64);
  Cast(s, i, RoundMode::CAST_NONE, 64);
  Cast(c, h, RoundMode::CAST_FLOOR, 64);
  SetDeqScale(half(1));
  SetDeqScale(1.0f, 0, true);
  SetDeqScale(scales, VdeqInfo());
  CastDeq(c, s, 64);
  CastDequant<int8_t, int16_t, false, false>(c, s, 64, 1, UnaryRepeatParams());
  CastDeq<int8_t, int16_t, true, false, false>(c, s, bits, 1, UnaryRepeatParams());
  AddReluCast(c, h, h, 64);
  SubReluCast(h, f, f, uint64_t{64}, 1, BinaryRepeatParams());
  MulCast(c, h, h, 64);
  AddDeqRelu(h, i, i, 64);
  DataCopy(h, f, DataCopyParams(), DataCopyEnhancedParams());
  DataCopy(f, h, DataCopyParams(), DataCopyEnhancedParams());
  DataCopy(h, i, DataCopyParams(), DataCopyEnhancedParams());
  MulAddDst(f, h, h, 64);
  Axpy(f, h, half(2), 64);
  LocalMemAllocator<Hardware::UB> memory;
  memory.Alloc<half, 16>().SetValue(0, 1);
  memory.Alloc<TPosition::VECIN, float>(8).SetValue(0, 1);
  GlobalTensor<int32_t> shared;
  SyncAll(shared, i);
  SyncAll(shared, i, 0);
}
#endif

}  // namespace

extern "C" __global__ __aicore__ void every_call(GM_ADDR x) {
  uint64_t bits[2] = {FULL_MASK, FULL_MASK};
  Operands<half> h;
  Operands<float> f;
  Operands<int16_t> s;
  Operands<int32_t> i;
  LocalTensor<uint32_t> offsets;
  h.gm.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(x), 64);
  const auto vector = [&](auto& t) {
    Binary(t, bits);
    Scalars(t, bits);
    Unary(t, bits);
    Moves(t);
    Gathers(t, offsets, bits);
#if __NPU_ARCH__ == 2002
    Only310P(t, offsets, bits);
#endif
  };
  vector(h);
  vector(f);
  vector(s);
  vector(i);
  Reductions(h, bits);
  Reductions(f, bits);
  Casts(h.dst, f.dst, i.dst, bits);
  Cube(h.a, h.b, h.dst, f.dst, h.gm);
  System(i.dst);
  Pipes();
#if __NPU_ARCH__ == 2002
  LocalTensor<uint8_t> mask;
  LocalTensor<int8_t> c;
  LocalTensor<uint64_t> scales;
  Selects(h, mask, bits);
  Selects(f, mask, bits);
  Scaled(h.dst, f.dst, i.dst, s.dst, c, scales, bits);
#endif
}
