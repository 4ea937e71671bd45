// hajax_sim_execute and its kin: arguments checked, results handed over.
#include <string>

#include "native/emulator/acl/runtime.h"
#include "native/sim/execute.h"
#include "native/sim/status.h"

namespace {

namespace host = hajax::ascend::host;
namespace sim = hajax::sim;

hajax::emulator::RunOptions options_of(const hj_sim_options* options) {
  return options == nullptr ? hajax::emulator::acl::environment_options() : hajax::emulator::run_options(*options);
}

host::Failure hand_over(sim::Results made, hj_sim_result** results, int32_t* count) {
  if (results == nullptr) return sim::fault_of(made);
  const auto size = static_cast<int32_t>(made.size());
  if (*count < size) return host::bad_call("count", "room for " + std::to_string(size) + " results", *count);
  *count = size;
  for (size_t i = 0; i < made.size(); ++i) results[i] = made[i].release();
  return {};
}

// `library` null: the kernel that walks any plan.
int32_t execute(const char* library, const hj_target* target, const void* plan, int64_t plan_bytes,
                const hj_delta_call* call, const hj_sim_options* options, int64_t* counters, hj_sim_result** results,
                int32_t* count) {
  return sim::guarded([&] {
    if (call == nullptr) return host::bad_call("call", "an address", "null");
    if (results != nullptr && count == nullptr) return host::bad_call("count", "an address", "null");
    sim::Results made;
    const host::Failure failure =
        sim::execute(library, target, plan, plan_bytes, *call, options_of(options), counters, &made);
    return failure.failed() ? failure : hand_over(std::move(made), results, count);
  });
}

}  // namespace

int32_t hajax_sim_execute(const hj_target* target, const void* plan, int64_t plan_bytes, const hj_delta_call* call,
                          const hj_sim_options* options, int64_t* counters, hj_sim_result** results, int32_t* count) {
  return execute(nullptr, target, plan, plan_bytes, call, options, counters, results, count);
}

int32_t hajax_sim_execute_special(const char* library, const hj_target* target, const void* plan, int64_t plan_bytes,
                                  const hj_delta_call* call, const hj_sim_options* options, int64_t* counters,
                                  hj_sim_result** results, int32_t* count) {
  if (library == nullptr) return sim::refuse(host::bad_call("library", "a path", "null"));
  return execute(library, target, plan, plan_bytes, call, options, counters, results, count);
}
