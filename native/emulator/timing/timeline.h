// When every instruction of a run started and ended: what the clock can leave for a trace.
#ifndef HAJAX_NATIVE_EMULATOR_TIMING_TIMELINE_H_
#define HAJAX_NATIVE_EMULATOR_TIMING_TIMELINE_H_

#include <stdint.h>

#include <vector>

#include "native/emulator/core/lists.h"

namespace hajax::emulator {

// A stretch of one pipe. Times are cycles from the launch.
struct Slice {
  enum class What : uint8_t { work, scalar, queue_full, set, wait, barrier };
  static constexpr uint32_t kNone = ~uint32_t{0};

  What what = What::work;
  Pipe pipe = Pipe::S;
  Pipe full = Pipe::S;       // queue_full: S waits for a place in this pipe's queue
  uint32_t event = 0;        // index in the core's record
  uint32_t number = 0;       // of its pipe, from 1
  uint32_t partner = kNone;  // wait: the slice of the set that ended it
  double start = 0;
  double end = 0;
  double complete = 0;  // the result is there
};

using Timeline = std::vector<std::vector<Slice>>;  // by core

}  // namespace hajax::emulator

#endif  // HAJAX_NATIVE_EMULATOR_TIMING_TIMELINE_H_
