// Included before the kernel when it is built into libhajax_sim: its steps get numbers in messages and timelines.
#ifndef HAJAX_NATIVE_SIM_ON_STEP_H_
#define HAJAX_NATIVE_SIM_ON_STEP_H_

#include "native/emulator/core/services.h"

#define HAJAX_ON_STEP(program, step) ::hajax::emulator::number_step(static_cast<uint32_t>(program), step)

#endif  // HAJAX_NATIVE_SIM_ON_STEP_H_
