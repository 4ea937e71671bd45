// What one machine instruction touches and costs, declared before anything is computed. Instruction bodies have one
// form:
//   decode the arguments, declare the accesses in an Issue, hand both it and the computation to core().issue().
// issue() does the rest (bounds, alignment, limits, never-written bytes, races, counters, events), so no body can
// forget a check.
#ifndef HAJAX_NATIVE_EMULATOR_CORE_ISSUE_H_
#define HAJAX_NATIVE_EMULATOR_CORE_ISSUE_H_

#include <stdint.h>

#include "native/emulator/core/lists.h"

namespace hajax::emulator {

// Which of a repeat's lanes (elements) take part: bit i is lane i; at most 128 lanes of 16 bits, 64 of 32.
struct Lanes {
  uint64_t low = ~uint64_t{0};
  uint64_t high = ~uint64_t{0};
  bool operator[](int lane) const { return (lane < 64 ? low >> lane : high >> (lane - 64)) & 1; }
};

// Bytes of one memory: `repeats` groups of `blocks` runs of `bytes` bytes. Addresses are host pointers into the running
// core's memories (or GM); they may lie outside of them, which is what the bounds check is for.
struct Access {
  const char* operand = "";  // the argument's name, for messages: "dst", "src0"
  Space space = Space::UB;
  bool write = false;
  // 0: whole runs. Otherwise the size of a lane: within a repeat, only lanes of the issue's mask are touched; run b
  // holds lanes b * bytes / lane_bytes and following.
  uint8_t lane_bytes = 0;
  // Two reads or writes of this operand by one pipe need no barrier between them (an Mmad that accumulates many tiles).
  bool ordered_in_pipe = false;
  // A write to GM that adds to what is there: it reads too, and several cores may add to the same bytes.
  bool atomic = false;
  const void* address = nullptr;
  int64_t bytes = 32;
  int32_t blocks = 1;
  int64_t block_stride = 32;  // bytes
  int32_t repeats = 1;
  int64_t repeat_stride = 0;  // bytes
  int32_t alignment = 0;      // bytes; 0: that of the space
};

enum class Kind : uint8_t { work, set, wait, barrier };

struct Issue {
  static constexpr int kMostAccesses = 6;

  Instruction instruction;
  Pipe pipe;
  Kind kind = Kind::work;
  const void* where = nullptr;  // return address into the kernel's code: gives the source line
  uint32_t step = 0;            // number_step's, as the instruction was issued

  // Kind::set and Kind::wait: the pair of pipes and the event id.
  Pipe from = Pipe::S;
  Pipe to = Pipe::S;
  int32_t event = 0;

  int32_t accesses = 0;
  Access access[kMostAccesses];

  // Vector instructions: the lanes of each repeat; in counter mode the last repeat has its own.
  bool masked = false;  // some lane of `lanes` or `last_lanes` is off
  Lanes lanes;
  bool has_last_lanes = false;
  Lanes last_lanes;
  // Check that source and destination of vector instructions are the same or disjoint, within a repeat and forwards.
  bool check_overlap = false;

  // Costs and counts.
  uint32_t units = 0;      // what hj_cost.per_unit multiplies: repeats, tiles, fractals
  Path path = Path::none;  // moves
  uint64_t bytes = 0;      // moved on the path
  uint64_t macs = 0;       // in whole tiles
  uint64_t useful_macs = 0;
  uint64_t lanes_used = 0;  // active lanes over all repeats
  bool transform = false;   // rearranges only: its bytes count as layout transform

  Access& add(const Access& one) { return access[accesses++] = one; }
};

}  // namespace hajax::emulator

#endif  // HAJAX_NATIVE_EMULATOR_CORE_ISSUE_H_
