// Virtual time: how long the chip of a target table would take for what a run recorded. Everything here is modelled.
//
// S issues, spending scalar work, issue_cycles and argument_cycles, and runs ahead of a pipe by at most queue_depth
// instructions. A pipe takes its instructions in order: each starts when the one before has freed the pipe and S has
// issued it, keeps the pipe busy for its cost, and is complete a latency later. A flag rises when everything before it
// on its pipe is complete; a wait holds its pipe until then, a barrier until its own pipe's results are there. Cores
// run on clocks of their own and meet at SyncAll and at GM, whose accesses go through one L2 in the order of their
// starting times. A core's share of DDR is its own, used or not by the others, and its reads and writes do not compete:
// L2 takes up the writes. A write that finds no room for itself in L2 pays the rate of DDR all the same, as the line
// that makes room may have to go there; the write-back itself is counted but holds nobody up.
#ifndef HAJAX_NATIVE_EMULATOR_TIMING_CLOCK_H_
#define HAJAX_NATIVE_EMULATOR_TIMING_CLOCK_H_

#include <stdint.h>

#include <vector>

#include "hajax/abi/target.h"
#include "native/emulator/core/launch.h"
#include "native/emulator/timing/core_clock.h"
#include "native/emulator/timing/l2.h"
#include "native/emulator/timing/timeline.h"

namespace hajax::emulator {

enum class TimingValue : uint8_t {
#define TIMING(number, name, unit, meaning) name = number,
#include "hajax/abi/timing.def"
#undef TIMING
};
inline constexpr int kTimings = 0
#define TIMING(number, name, unit, meaning) +1
#include "hajax/abi/timing.def"
#undef TIMING
    ;

struct Timing {
  double values[kTimings] = {};  // timing.def
  std::vector<CoreTiming> cores;
  double& operator[](TimingValue value) { return values[static_cast<int>(value)]; }
  double operator[](TimingValue value) const { return values[static_cast<int>(value)]; }
};

// `l2` is the device's: empty for a first launch, and left as this one leaves it. Equal arguments give equal bits.
Timing measure(const hj_target& target, const Result& result, L2& l2, Timeline* timeline = nullptr);

}  // namespace hajax::emulator

#endif  // HAJAX_NATIVE_EMULATOR_TIMING_CLOCK_H_
