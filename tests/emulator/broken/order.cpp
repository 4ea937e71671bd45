// Kernels that break one rule of order each: between pipes, within one, between cores.
#include "buffers.h"

KERNEL(flag_unpaired_set) { SetFlag<HardEvent::MTE2_V>(0); }

KERNEL(flag_unpaired_two_waits) {
  SetFlag<HardEvent::V_MTE3>(1);
  WaitFlag<HardEvent::V_MTE3>(1);
  WaitFlag<HardEvent::V_MTE3>(1);
  WaitFlag<HardEvent::V_MTE3>(1);
}

KERNEL(flag_doubled_set) {
  SetFlag<HardEvent::MTE2_V>(3);
  SetFlag<HardEvent::MTE2_V>(3);
  WaitFlag<HardEvent::MTE2_V>(3);
  WaitFlag<HardEvent::MTE2_V>(3);
}

KERNEL(flag_pipe_itself) { set_flag(PIPE_V, PIPE_V, EVENT_ID0); }

// What was meant for MTE3 went to V: the wait never ends, and the report names both.
KERNEL(deadlock_wrong_pipe) {
  Buffers k(in, out, count);
  DataCopy(k.a, k.from, 64);
  SetFlag<HardEvent::MTE2_V>(0);
  WaitFlag<HardEvent::MTE2_MTE3>(0);
  DataCopy(k.to, k.a, 64);
}

KERNEL(deadlock_scalar) { WaitFlag<HardEvent::V_S>(0); }

KERNEL(deadlock_full_queue) {
  Buffers k(in, out, count);
  WaitFlag<HardEvent::MTE2_V>(0);
  for (int i = 0; i < 64; ++i) Duplicate(k.a, 1.0f, 64);
  SetFlag<HardEvent::MTE2_V>(0);
}

KERNEL(race_read_after_write) {
  Buffers k(in, out, count);
  DataCopy(k.a, k.from, 64);
  Adds(k.b, k.a, 1.0f, 64);
}

KERNEL(race_write_after_read) {
  Buffers k(in, out, count);
  DataCopy(k.a, k.from, 64);
  Order<HardEvent::MTE2_V>();
  Adds(k.b, k.a, 1.0f, 64);
  DataCopy(k.a, k.from, 64);
}

KERNEL(race_scalar_read) {
  Buffers k(in, out, count);
  Duplicate(k.a, 1.0f, 64);
  if (k.a.GetValue(0) == 1.0f) Duplicate(k.b, 2.0f, 64);
}

// Lanes that the other instruction leaves alone do not race; lane 3 does.
KERNEL(race_one_lane) {
  Buffers k(in, out, count);
  uint64_t upper[2] = {0xfffffffffffffff0u, 0};
  uint64_t lower[2] = {0x000000000000000fu, 0};
  Duplicate(k.a, 1.0f, upper, 1, 1, 8);
  PipeBarrier<PIPE_V>();
  Duplicate(k.a, 2.0f, lower, 1, 1, 8);
  if (k.a.GetValue(3) == 2.0f) Duplicate(k.b, 2.0f, 64);
}

KERNEL(race_through_gm) {
  Buffers k(in, out, count);
  Duplicate(k.a, 1.0f, 64);
  Order<HardEvent::V_MTE3>();
  DataCopy(k.to, k.a, 64);
  DataCopy(k.b, k.to, 64);
}

KERNEL(pipe_race_vector) {
  Buffers k(in, out, count);
  Duplicate(k.a, 1.0f, 64);
  Adds(k.b, k.a, 1.0f, 64);
}

KERNEL(pipe_race_mte2) {
  Buffers k(in, out, count);
  DataCopy(k.a, k.from, 64);
  DataCopy(k.a[32], k.from[64], 64);
}

KERNEL(pipe_race_cube) {
  TPipe pipe;
  TBuf<TPosition::A1> l1;
  TBuf<TPosition::A2> left;
  TBuf<TPosition::B2> right;
  TBuf<TPosition::CO1> result;
  pipe.InitBuffer(l1, 512);
  pipe.InitBuffer(left, 512);
  pipe.InitBuffer(right, 512);
  pipe.InitBuffer(result, 1024);
  GlobalTensor<half> from;
  from.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(in), 256);
  LocalTensor<half> a = left.Get<half>(), b = right.Get<half>();
  LocalTensor<float> c = result.Get<float>();
  DataCopy(l1.Get<half>(), from, 256);
  Order<HardEvent::MTE2_MTE1>();
  LoadData2DParams one;
  one.repeatTimes = 1;
  LoadData(a, l1.Get<half>(), one);
  LoadData(b, l1.Get<half>(), one);
  Order<HardEvent::MTE1_M>();
  MmadParams params;
  params.m = params.n = params.k = 16;
  params.cmatrixInitVal = true;
  Mmad(c, a, b, params);
  params.cmatrixInitVal = false;
  Mmad(c, a, b, params);
}

KERNEL(gm_overlap_writes) {
  Buffers k(in, out, count);
  Duplicate(k.a, 1.0f, 64);
  Order<HardEvent::V_MTE3>();
  DataCopy(k.to[GetBlockIdx() * 56], k.a, 64);
}

KERNEL(gm_overlap_read) {
  Buffers k(in, out, count);
  if (GetBlockIdx() == 0) {
    Duplicate(k.a, 1.0f, 64);
    Order<HardEvent::V_MTE3>();
    DataCopy(k.from, k.a, 64);
  } else {
    DataCopy(k.a, k.from[32], 64);
  }
}
