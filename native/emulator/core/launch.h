// Runs a kernel on the cores of an emulated chip and collects what it did.
#ifndef HAJAX_NATIVE_EMULATOR_CORE_LAUNCH_H_
#define HAJAX_NATIVE_EMULATOR_CORE_LAUNCH_H_

#include <stdint.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hajax/abi/target.h"
#include "native/emulator/core/event.h"
#include "native/emulator/core/fault.h"
#include "native/emulator/core/gm.h"

namespace hajax::emulator {

struct Options {
  int threads = 1;            // host threads; results and counts do not depend on it
  bool check_races = true;    // between and within pipes, and between cores on GM
  bool check_written = true;  // reads of never-written or freed bytes
  // No arithmetic, and no data moved but from GM to UB, where a kernel may read what it is to do; other scalar reads of
  // UB give zeros.
  bool counts_only = false;
  bool fatal_saturation = false;
  bool auto_barriers = false;  // put barriers between dependent vector instructions, as the device compiler can
};

struct CoreCounts {
  uint64_t path_bytes[kPaths] = {};
  uint64_t path_transfers[kPaths] = {};
  uint64_t instructions[HJ_INSTRUCTIONS] = {};
  uint64_t pipe_instructions[kPipes] = {};
  uint64_t counts[kCounts] = {};
};

struct Result {
  std::optional<Fault> fault;  // the lowest core's
  int blocks = 0;
  std::vector<CoreCounts> counts;   // one a core
  std::vector<CoreRecord> records;  // one a core: what the clock reads
};

// Runs `body` once for each of `blocks` cores, with core() set. Blocks must not exceed the target's AI cores.
Result launch(const hj_target& target, Gm& gm, const std::string& kernel, int blocks, const Options& options,
              const std::function<void()>& body);

}  // namespace hajax::emulator

#endif  // HAJAX_NATIVE_EMULATOR_CORE_LAUNCH_H_
