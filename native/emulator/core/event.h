// The record that functional execution leaves for the clock: timing and timelines are computed from it afterwards, so
// that neither the number of host threads nor their speed can change them.
#ifndef HAJAX_NATIVE_EMULATOR_CORE_EVENT_H_
#define HAJAX_NATIVE_EMULATOR_CORE_EVENT_H_

#include <stdint.h>

#include <vector>

#include "native/emulator/core/issue.h"
#include "native/emulator/core/lists.h"

namespace hajax::emulator {

// One step of one core, in the order in which it ran. An instruction that had to wait in its queue leaves two events,
// one when S issued it and one when its pipe came to it; all others leave one with both bits.
struct Event {
  static constexpr uint8_t kIssued = 1;
  static constexpr uint8_t kExecuted = 2;
  static constexpr uint32_t kNoGm = ~uint32_t{0};

  Instruction instruction;
  Pipe pipe;
  Kind kind;
  uint8_t what;  // kIssued | kExecuted
  Pipe from;     // set and wait
  Pipe to;
  uint8_t event;  // id of set and wait; for a barrier 1 when S waits for all pipes (PIPE_ALL)
  Path path;
  float scalar_cycles;  // S spent since its last event: masks, registers, loads
  uint32_t units;
  uint32_t bytes;
  uint32_t gm;    // index of the core's first GmAccess of this instruction, kNoGm when it has none
  uint32_t step;  // number_step's
  const void* where;
};

// One side of an instruction's GM traffic. Offsets count from the start of the device's memory.
struct GmAccess {
  int64_t offset;
  int64_t bytes;
  int64_t stride;
  int32_t runs;
  bool write;
  bool atomic;      // SetAtomicAdd: writes of several cores may meet
  uint32_t epoch;   // how many SyncAll the core had passed
  uint32_t number;  // instruction number on its pipe
  Pipe pipe;
  Instruction instruction;
  uint32_t step;
  const void* where;
};

struct CoreRecord {
  std::vector<Event> events;
  std::vector<GmAccess> gm;
};

}  // namespace hajax::emulator

#endif  // HAJAX_NATIVE_EMULATOR_CORE_EVENT_H_
