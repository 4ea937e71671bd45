// Runs of bytes that lie at a stride in two memories: what all moves come down to.
#ifndef HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_MOVE_RUNS_H_
#define HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_MOVE_RUNS_H_

#include <stdint.h>
#include <string.h>

#include "native/emulator/core/issue.h"

namespace hajax::emulator {

struct Runs {
  uint8_t* to;
  const uint8_t* from;
  int64_t count;
  int64_t bytes;
  int64_t to_stride;
  int64_t from_stride;
};

// A multiple of `unit` bytes, as moves come in; the compiler turns fixed sizes into a few loads and stores.
template <size_t kUnit>
void copy_runs_of(const Runs& runs) {
  for (int64_t run = 0; run < runs.count; ++run) {
    memmove(runs.to + run * runs.to_stride, runs.from + run * runs.from_stride, kUnit);
  }
}

inline void copy_runs(const Runs& runs) {
  if (runs.count == 1 || (runs.to_stride == runs.bytes && runs.from_stride == runs.bytes)) {
    memmove(runs.to, runs.from, static_cast<size_t>(runs.count * runs.bytes));
    return;
  }
  switch (runs.bytes) {
    case 32:
      return copy_runs_of<32>(runs);
    case 64:
      return copy_runs_of<64>(runs);
    default:
      for (int64_t run = 0; run < runs.count; ++run) {
        memmove(runs.to + run * runs.to_stride, runs.from + run * runs.from_stride, static_cast<size_t>(runs.bytes));
      }
  }
}

inline Access access_of(const char* operand, Space space, bool write, const void* address, int64_t count, int64_t bytes,
                        int64_t stride) {
  Access access;
  access.operand = operand;
  access.space = space;
  access.write = write;
  access.address = address;
  access.bytes = bytes;
  access.blocks = static_cast<int32_t>(count);
  access.block_stride = stride;
  return access;
}

}  // namespace hajax::emulator

#endif  // HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_MOVE_RUNS_H_
