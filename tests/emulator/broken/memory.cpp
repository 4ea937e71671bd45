// Kernels that break one rule of memory each; named by the check that must stop them, then by how.
#include "buffers.h"

KERNEL(out_of_bounds_gm) {
  Buffers k(in, out, count);
  DataCopy(k.a, k.from[count - 64], 128);
}

KERNEL(out_of_bounds_buffer) {
  Buffers k(in, out, count);
  Duplicate(k.a, 1.0f, 256 + 8);
}

KERNEL(out_of_bounds_ub) {
  Buffers k(in, out, count);
  LocalTensor<float> end(TPosition::VECCALC, 248 * 1024 - 32, 8);
  Duplicate(end, 1.0f, 64);
}

KERNEL(out_of_bounds_element) {
  Buffers k(in, out, count);
  Duplicate(k.a, 1.0f, 256);
  Order<HardEvent::V_S>();
  k.b.SetValue(0, k.a.GetValue(256));
}

KERNEL(out_of_bounds_offset) {
  Buffers k(in, out, count);
  Duplicate(k.b, 1.0f, 256);
  PipeBarrier<PIPE_V>();
  Adds(k.b, k.a[256], 1.0f, 64);
}

KERNEL(out_of_bounds_space) {
  Buffers k(in, out, count);
  TBuf<TPosition::A1> l1;
  k.pipe.InitBuffer(l1, 256);
  Duplicate(l1.Get<float>(), 1.0f, 64);
}

KERNEL(misaligned_ub) {
  Buffers k(in, out, count);
  Duplicate(k.a[1], 1.0f, 64);
}

KERNEL(uninitialized_ub) {
  Buffers k(in, out, count);
  DataCopy(k.a, k.from, 64);
  Order<HardEvent::MTE2_V>();
  Adds(k.b, k.a, 1.0f, 72);
}

KERNEL(uninitialized_masked_lane) {
  Buffers k(in, out, count);
  uint64_t even[2] = {0x5555555555555555u, 0};
  Duplicate(k.a, 1.0f, even, 1, 1, 8);
  PipeBarrier<PIPE_V>();
  Adds(k.b, k.a, 1.0f, 64);
}

KERNEL(uninitialized_gm) {
  Buffers k(in, out, count);
  DataCopy(k.a, k.to, 64);
}

KERNEL(limit_repeat) {
  Buffers k(in, out, count);
  vector_dup(reinterpret_cast<__ubuf__ float*>(k.a.GetPhyAddr()), 1.0f, 256, 1, 1, 0, 0);
}

KERNEL(limit_mask_never_set) {
  Buffers at(in, out, count);
  InitSocState();  // which sets none on these chips
  Duplicate<float, false>(at.a, 1.0f, MASK_PLACEHOLDER, 1, 1, 8);
}

KERNEL(limit_block_count) {
  Buffers k(in, out, count);
  DataCopy(k.a, k.from, DataCopyParams(4096, 1, 0, 0));
}

KERNEL(limit_copy_bytes) {
  Buffers k(in, out, count);
  DataCopy(k.a, k.from, 13);
}

KERNEL(limit_no_scale) {
  Buffers k(in, out, count);
  LocalTensor<int32_t> whole = k.first.Get<int32_t>();
  Duplicate(whole, 3, 64);
  PipeBarrier<PIPE_V>();
  Cast(k.second.Get<half>(), whole, RoundMode::CAST_NONE, 64);
}

KERNEL(limit_event) {
  SetFlag<HardEvent::MTE2_V>(8);
}

KERNEL(partial_overlap_blocks) {
  Buffers k(in, out, count);
  Duplicate(k.a, 1.0f, 256);
  PipeBarrier<PIPE_V>();
  Adds(k.a[8], k.a, 1.0f, static_cast<uint64_t>(64), 1, UnaryRepeatParams(1, 1, 8, 8));
}

KERNEL(saturated_half) {
  Buffers k(in, out, count);
  LocalTensor<half> h = k.first.Get<half>();
  Duplicate(h, half(60000.0f), 128);
  PipeBarrier<PIPE_V>();
  Add(h, h, h, 128);
}
