// A plan on an emulated chip: the host code and the kernel of a device, over a runtime of the call's own.
#ifndef HAJAX_NATIVE_SIM_EXECUTE_H_
#define HAJAX_NATIVE_SIM_EXECUTE_H_

#include <stdint.h>

#include <memory>
#include <vector>

#include "hajax/abi/sim.h"
#include "native/ascend/host/failure.h"
#include "native/emulator/interface.h"

namespace hajax::sim {

using Results = std::vector<std::unique_ptr<hj_sim_result>>;

// `chip` null: the one that the plan names. `library` null: the kernel that walks any plan, else the file that has the
// one that was made of this plan. Results are one a launch, up to the one whose check failed, which is no failure here.
// Counters may be null. Throws what the standard library throws.
ascend::host::Failure execute(const char* library, const hj_target* chip, const void* plan, int64_t plan_bytes,
                              const hj_delta_call& call, const emulator::RunOptions& options, int64_t* counters,
                              Results* results);

}  // namespace hajax::sim

#endif  // HAJAX_NATIVE_SIM_EXECUTE_H_
