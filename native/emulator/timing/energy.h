// Energy from counts: what every counted operation and byte takes, by the target's table.
#ifndef HAJAX_NATIVE_EMULATOR_TIMING_ENERGY_H_
#define HAJAX_NATIVE_EMULATOR_TIMING_ENERGY_H_

#include <stdint.h>

#include "hajax/abi/target.h"
#include "native/emulator/core/launch.h"

namespace hajax::emulator {

// Of one core's counts: MACs in whole tiles, vector lanes, and bytes into and out of L1, L0 and UB.
double core_picojoules(const hj_target& target, const CoreCounts& counts);

// Bytes between the cores and L2, and between L2 and DDR.
double memory_picojoules(const hj_target& target, int64_t l2_bytes, int64_t ddr_bytes);

}  // namespace hajax::emulator

#endif  // HAJAX_NATIVE_EMULATOR_TIMING_ENERGY_H_
