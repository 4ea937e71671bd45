// Failures and exceptions on their way to the C interface.
#ifndef HAJAX_NATIVE_SIM_STATUS_H_
#define HAJAX_NATIVE_SIM_STATUS_H_

#include <exception>
#include <new>
#include <stdexcept>

#include "native/ascend/host/failure.h"
#include "native/sim/execute.h"

namespace hajax::sim {

inline int32_t refuse(const ascend::host::Failure& failure) {
  if (failure.failed()) emulator::set_last_error(failure.text);
  return failure.status;
}

// What a caller without results is told of a failed check.
inline ascend::host::Failure fault_of(const Results& results) {
  if (results.empty() || !results.back()->run->result.fault) return {};
  return {ascend::host::kStatus_internal, results.back()->run->fault};
}

// Runs `body`, which returns a Failure; that and what it throws become a status with the thread's last error set.
template <typename Body>
int32_t guarded(Body&& body) {
  using ascend::host::Failure;
  try {
    return refuse(body());
  } catch (const std::invalid_argument& error) {
    return refuse(Failure{ascend::host::kStatus_bad_call, error.what()});
  } catch (const std::bad_alloc&) {
    return refuse(Failure{ascend::host::kStatus_internal, "out of host memory"});
  } catch (const std::exception& error) {
    return refuse(Failure{ascend::host::kStatus_internal, error.what()});
  }
}

}  // namespace hajax::sim

#endif  // HAJAX_NATIVE_SIM_STATUS_H_
