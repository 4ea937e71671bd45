// An access as the runs of consecutive bytes that it touches.
#ifndef HAJAX_NATIVE_EMULATOR_CHECKS_RUNS_H_
#define HAJAX_NATIVE_EMULATOR_CHECKS_RUNS_H_

#include <stdint.h>

#include "native/emulator/core/issue.h"

namespace hajax::emulator {

// Calls run(offset, bytes) for each, in order; `start` is the offset of the access's address in its space. A masked
// access gives one run for each stretch of neighbouring active lanes in a block.
template <typename Run>
void for_each_run(const Issue& what, const Access& access, int64_t start, Run run) {
  const int64_t group = access.bytes * access.blocks;
  const bool dense_blocks = access.blocks == 1 || access.block_stride == access.bytes;
  if (access.lane_bytes == 0 || !what.masked) {
    if (dense_blocks && (access.repeats == 1 || access.repeat_stride == group)) {
      run(start, group * access.repeats);
      return;
    }
    for (int32_t r = 0; r < access.repeats; ++r) {
      const int64_t repeat = start + r * access.repeat_stride;
      if (dense_blocks) {
        run(repeat, group);
        continue;
      }
      for (int32_t b = 0; b < access.blocks; ++b) run(repeat + b * access.block_stride, access.bytes);
    }
    return;
  }
  const int lanes_per_block = static_cast<int>(access.bytes / access.lane_bytes);
  for (int32_t r = 0; r < access.repeats; ++r) {
    const Lanes& lanes = what.has_last_lanes && r == access.repeats - 1 ? what.last_lanes : what.lanes;
    for (int32_t b = 0; b < access.blocks; ++b) {
      const int64_t block = start + r * access.repeat_stride + b * access.block_stride;
      int from = -1;
      for (int lane = 0; lane <= lanes_per_block; ++lane) {
        const bool on = lane < lanes_per_block && lanes[b * lanes_per_block + lane];
        if (on && from < 0) from = lane;
        if (!on && from >= 0) {
          run(block + from * access.lane_bytes, int64_t{access.lane_bytes} * (lane - from));
          from = -1;
        }
      }
    }
  }
}

}  // namespace hajax::emulator

#endif  // HAJAX_NATIVE_EMULATOR_CHECKS_RUNS_H_
