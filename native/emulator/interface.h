// What the functions of hajax/abi/sim.h share between files: a result, the thread's last error, options.
#ifndef HAJAX_NATIVE_EMULATOR_INTERFACE_H_
#define HAJAX_NATIVE_EMULATOR_INTERFACE_H_

#include <memory>
#include <string>

#include "hajax/abi/sim.h"
#include "native/emulator/acl/device.h"

struct hj_sim_result {
  hj_target target;
  std::unique_ptr<hajax::emulator::Run> run;
  std::string trace;
};

namespace hajax::emulator {

// What hajax_sim_last_error gives the calling thread from now on.
void set_last_error(std::string text);

// Throws std::invalid_argument.
RunOptions run_options(const hj_sim_options& options);

}  // namespace hajax::emulator

#endif  // HAJAX_NATIVE_EMULATOR_INTERFACE_H_
