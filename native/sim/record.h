// Calls whose caller cannot be given results: XLA's. What they did is kept for whoever has asked for it.
#ifndef HAJAX_NATIVE_SIM_RECORD_H_
#define HAJAX_NATIVE_SIM_RECORD_H_

#include <stdint.h>

#include "hajax/abi/sim.h"

namespace hajax::sim {

// hajax_sim_execute on the chip that the plan names, with the environment's options and no results; a failed check is a
// status. No exception leaves it.
int32_t execute_recorded(const void* plan, int64_t plan_bytes, const hj_delta_call& call, int64_t* counters);

}  // namespace hajax::sim

#endif  // HAJAX_NATIVE_SIM_RECORD_H_
