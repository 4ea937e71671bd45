// A run's timeline as Chrome trace JSON, which Perfetto and chrome://tracing show: a process a core, a track a pipe.
#ifndef HAJAX_NATIVE_EMULATOR_TIMING_TRACE_H_
#define HAJAX_NATIVE_EMULATOR_TIMING_TRACE_H_

#include <functional>
#include <string>

#include "hajax/abi/target.h"
#include "native/emulator/core/launch.h"
#include "native/emulator/timing/timeline.h"

namespace hajax::emulator {

struct TraceLabels {
  std::string kernel;
  // File and line of a return address; asked once for each address. Empty: no lines in the trace.
  std::function<std::string(const void*)> line;
};

// Timestamps are microseconds of modelled time; flags are arrows from the SetFlag to the WaitFlag that took it.
std::string trace_json(const hj_target& target, const Result& result, const Timeline& timeline,
                       const TraceLabels& labels);

}  // namespace hajax::emulator

#endif  // HAJAX_NATIVE_EMULATOR_TIMING_TRACE_H_
