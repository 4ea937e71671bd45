// Those functions of hajax/abi/sim.h that run plans: arguments checked, exceptions turned into a status.
#include <exception>
#include <new>
#include <stdexcept>
#include <string>

#include "native/emulator/acl/runtime.h"
#include "native/sim/execute.h"

namespace {

namespace host = hajax::ascend::host;
namespace sim = hajax::sim;

int32_t refuse(host::Status status, const std::string& text) {
  hajax::emulator::set_last_error(text);
  return status;
}

int32_t refuse(const host::Failure& failure) { return refuse(failure.status, failure.text); }

hajax::emulator::RunOptions options_of(const hj_sim_options* options) {
  return options == nullptr ? hajax::emulator::acl::environment_options() : hajax::emulator::run_options(*options);
}

// What a caller without results gets of a failed check.
host::Failure fault_of(const sim::Results& results) {
  if (results.empty() || !results.back()->run->result.fault) return {};
  return {host::kStatus_internal, results.back()->run->fault};
}

int32_t execute(const hj_target* target, const void* plan, int64_t plan_bytes, const hj_delta_call* call,
                const hj_sim_options* options, int64_t* counters, hj_sim_result** results, int32_t* count) {
  const auto null = [](const char* name) { return host::bad_call(name, "an address", "null"); };
  if (call == nullptr) return refuse(null("call"));
  if (results != nullptr && count == nullptr) return refuse(null("count"));
  sim::Results made;
  if (const host::Failure f = sim::execute(target, plan, plan_bytes, *call, options_of(options), counters, &made);
      f.failed()) {
    return refuse(f);
  }
  if (results == nullptr) {
    const host::Failure fault = fault_of(made);
    return fault.failed() ? refuse(fault) : int32_t{host::kStatus_ok};
  }
  const auto size = static_cast<int32_t>(made.size());
  if (*count < size) return refuse(host::bad_call("count", "room for " + std::to_string(size) + " results", *count));
  *count = size;
  for (size_t i = 0; i < made.size(); ++i) results[i] = made[i].release();
  return host::kStatus_ok;
}

}  // namespace

int32_t hajax_sim_execute(const hj_target* target, const void* plan, int64_t plan_bytes, const hj_delta_call* call,
                          const hj_sim_options* options, int64_t* counters, hj_sim_result** results, int32_t* count) {
  try {
    return execute(target, plan, plan_bytes, call, options, counters, results, count);
  } catch (const std::invalid_argument& error) {
    return refuse(host::kStatus_bad_call, error.what());
  } catch (const std::bad_alloc&) {
    return refuse(host::kStatus_internal, "out of host memory");
  } catch (const std::exception& error) {
    return refuse(host::kStatus_internal, error.what());
  }
}
