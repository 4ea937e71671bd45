// Kernels of the runtime's own tests: scalar code only, so that they need neither the API nor the vector instructions.
#include <stdint.h>
#include <stdlib.h>

#include <stdexcept>

#include "native/emulator/core/services.h"
#include "native/emulator/instructions/sync.h"
#include "native/emulator/instructions/types.h"

#ifndef GM_ADDR
#define GM_ADDR __gm__ uint8_t*
#endif

namespace em = hajax::emulator;
using em::Space;

static int32_t load(GM_ADDR from, int64_t index) {
  auto* at = reinterpret_cast<int32_t*>(from) + index;
  em::scalar_read(Space::GM, at, 4);
  return *at;
}

static void store(GM_ADDR to, int64_t index, int32_t value) {
  auto* at = reinterpret_cast<int32_t*>(to) + index;
  em::scalar_write(Space::GM, at, 4);
  *at = value;
}

// y[i] = x[i] + by; each core takes runs of 8 elements, so that no two share a block.
extern "C" __global__ __aicore__ void add(GM_ADDR x, GM_ADDR y, uint32_t count, int32_t by) {
  for (int64_t run = em::block_index(); run * 8 < count; run += em::block_count()) {
    for (int64_t i = run * 8; i < run * 8 + 8 && i < count; ++i) store(y, i, load(x, i) + by);
  }
}

// The halves of both words, to see how integers arrive.
extern "C" __global__ __aicore__ void words(GM_ADDR out, uint64_t a, int64_t b) {
  store(out, 0, static_cast<int32_t>(a & 0xffffffff));
  store(out, 1, static_cast<int32_t>(a >> 32));
  store(out, 2, static_cast<int32_t>(b));
  store(out, 3, static_cast<int32_t>(b >> 32));
}

extern "C" __global__ __aicore__ void named(GM_ADDR x) {
  em::name_step("second pass");
  load(x, 1 << 20);
}

extern "C" __global__ __aicore__ void overlap(GM_ADDR y) { store(y, 0, em::block_index()); }

extern "C" __global__ __aicore__ void wild(GM_ADDR x, uint64_t address) {
  *reinterpret_cast<volatile uint8_t*>(address) = *x;
}
extern "C" __global__ __aicore__ void divide(GM_ADDR x, uint32_t by) {
  volatile int32_t one = 1;
  volatile int32_t zero = static_cast<int32_t>(by);
  store(x, 0, one / zero);
}
extern "C" __global__ __aicore__ void deep(GM_ADDR x) {
  volatile uint8_t frame[4096];
  frame[0] = 1;
  if (x != nullptr) deep(x + frame[0]);
  frame[1] = 2;
}
extern "C" __global__ __aicore__ void waits(GM_ADDR) { wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0); }
extern "C" __global__ __aicore__ void aborts(GM_ADDR) { abort(); }
extern "C" __global__ __aicore__ void traps(GM_ADDR) { __builtin_trap(); }
extern "C" __global__ __aicore__ void throws(GM_ADDR) { throw std::runtime_error("as said"); }
extern "C" __global__ __aicore__ void takes_float(GM_ADDR, float) {}
