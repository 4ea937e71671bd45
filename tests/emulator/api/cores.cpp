// Several cores: SyncAll in software, atomic additions.
#include "kernel_operator.h"

using namespace AscendC;

// Every round each core writes its number times the round to its block of x, and copies its neighbour's to its row of
// y.
extern "C" __global__ __aicore__ void ring(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, uint32_t rounds, uint32_t used) {
  const auto core = static_cast<uint32_t>(GetBlockIdx()), cores = static_cast<uint32_t>(GetBlockNum());
  GlobalTensor<int32_t> shared, seen, sync_gm;
  shared.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(x), cores * 8);
  seen.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(y), rounds * cores * 8);
  sync_gm.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(workspace), cores * 8);
  TPipe pipe;
  TBuf<TPosition::VECCALC> buffer, sync_buffer;
  pipe.InitBuffer(buffer, 32);
  pipe.InitBuffer(sync_buffer, cores * 32);
  LocalTensor<int32_t> own = buffer.Get<int32_t>();
  for (uint32_t round = 1; round <= rounds; ++round) {
    Duplicate(own, static_cast<int32_t>((core + 1) * round), 8);
    PipeBarrier<PIPE_ALL>();
    DataCopy(shared[core * 8], own, 8);
    SyncAll(sync_gm, sync_buffer.Get<int32_t>(), static_cast<int32_t>(used));
    DataCopy(own, shared[(core + 1) % cores * 8], 8);
    PipeBarrier<PIPE_ALL>();
    DataCopy(seen[((round - 1) * cores + core) * 8], own, 8);
    SyncAll(sync_gm, sync_buffer.Get<int32_t>());
  }
}

// Every core adds x to y.
template <typename T>
void AddTo(GM_ADDR x, GM_ADDR y, uint32_t count) {
  GlobalTensor<T> from, to;
  from.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x), count);
  to.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y), count);
  TPipe pipe;
  TBuf<TPosition::VECCALC> buffer;
  pipe.InitBuffer(buffer, static_cast<uint32_t>(count * sizeof(T)));
  DataCopy(buffer.Get<T>(), from, count);
  SetFlag<HardEvent::MTE2_MTE3>(EVENT_ID0);
  WaitFlag<HardEvent::MTE2_MTE3>(EVENT_ID0);
  SetAtomicAdd<T>();
  DataCopy(to, buffer.Get<T>(), count);
  SetAtomicNone();
}

extern "C" __global__ __aicore__ void add_to_float(GM_ADDR x, GM_ADDR y, uint32_t count) { AddTo<float>(x, y, count); }
extern "C" __global__ __aicore__ void add_to_half(GM_ADDR x, GM_ADDR y, uint32_t count) { AddTo<half>(x, y, count); }
