// The chips of hajax/targets/*.def, compiled in. A row with an unknown field, instruction or status does not compile.
#ifndef HAJAX_NATIVE_EMULATOR_TIMING_TARGETS_H_
#define HAJAX_NATIVE_EMULATOR_TIMING_TARGETS_H_

#include <vector>

#include "hajax/abi/target.h"

namespace hajax::emulator {

// Null when there is no such chip.
const hj_target* built_in_target(const char* name);

std::vector<const char*> target_names();

}  // namespace hajax::emulator

#endif  // HAJAX_NATIVE_EMULATOR_TIMING_TARGETS_H_
