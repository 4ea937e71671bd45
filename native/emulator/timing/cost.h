// Formulas of one instruction, over a target's rows. hajax/chip_cost.py has the same in Python, and a test holds them
// equal.
#ifndef HAJAX_NATIVE_EMULATOR_TIMING_COST_H_
#define HAJAX_NATIVE_EMULATOR_TIMING_COST_H_

#include <stdint.h>

#include "hajax/abi/target.h"
#include "native/emulator/core/lists.h"

namespace hajax::emulator {

// Whether one end of the path is GM.
bool uses_gm(Path path);
bool reads_gm(Path path);
bool writes_gm(Path path);

// Bytes a cycle that long copies reach on a path; on those of GM, when L2 holds the bytes, or when it does not.
double path_rate(const hj_target& target, Path path, bool in_l2);

// Cycles that an instruction keeps its pipe busy, the start included. Of `bytes` moved, `missed` are not in L2.
double instruction_cycles(const hj_target& target, Instruction instruction, int64_t units, int64_t bytes, Path path,
                          int64_t missed = 0);

// Cycles from its last busy one until its result is there.
double instruction_latency(const hj_target& target, Instruction instruction, Path path);

}  // namespace hajax::emulator

#endif  // HAJAX_NATIVE_EMULATOR_TIMING_COST_H_
