#include "native/sim/record.h"

#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "native/emulator/acl/runtime.h"
#include "native/sim/execute.h"
#include "native/sim/status.h"

struct hj_sim_record {
  std::vector<uint8_t> plan;
  hajax::sim::Results results;
};

namespace hajax::sim {
namespace {

constexpr int32_t kTimelines = 2;

struct Recorder {
  std::mutex lock;
  std::vector<int32_t> wishes;  // what each asked for, the latest last
  std::deque<std::unique_ptr<hj_sim_record>> kept;

  int32_t most_wanted() {
    const std::lock_guard guard(lock);
    int32_t most = 0;
    for (const int32_t wish : wishes) most = wish > most ? wish : most;
    return most;
  }
};

// Never destroyed: calls may run while the process ends.
Recorder& recorder() {
  static auto* const one = new Recorder();
  return *one;
}

void keep(const void* plan, int64_t plan_bytes, Results results) {
  auto record = std::make_unique<hj_sim_record>();
  const auto* bytes = static_cast<const uint8_t*>(plan);
  record->plan.assign(bytes, bytes + plan_bytes);
  record->results = std::move(results);
  const std::lock_guard guard(recorder().lock);
  if (!recorder().wishes.empty()) recorder().kept.push_back(std::move(record));
}

}  // namespace

int32_t execute_recorded(const void* plan, int64_t plan_bytes, const hj_delta_call& call, int64_t* counters) {
  return guarded([&] {
    const int32_t wanted = recorder().most_wanted();
    emulator::RunOptions options = emulator::acl::environment_options();
    options.timeline = wanted >= kTimelines;
    options.core.fatal_saturation = true;  // the result would be wrong, and nobody might look at the counts
    Results results;
    ascend::host::Failure failure = execute(nullptr, nullptr, plan, plan_bytes, call, options, counters, &results);
    if (!failure.failed()) failure = fault_of(results);
    if (!failure.failed() && wanted > 0) keep(plan, plan_bytes, std::move(results));
    return failure;
  });
}

}  // namespace hajax::sim

using hajax::sim::recorder;  // NOLINT: the functions of the C interface are global

void hajax_sim_record(int32_t on) {
  const std::lock_guard guard(recorder().lock);
  std::vector<int32_t>& wishes = recorder().wishes;
  if (on > 0) {
    wishes.push_back(on);
  } else if (!wishes.empty()) {
    wishes.pop_back();
  }
  if (wishes.empty()) recorder().kept.clear();
}

hj_sim_record* hajax_sim_record_take() {
  const std::lock_guard guard(recorder().lock);
  if (recorder().kept.empty()) return nullptr;
  hj_sim_record* record = recorder().kept.front().release();
  recorder().kept.pop_front();
  return record;
}

const void* hajax_sim_record_plan(const hj_sim_record* record, int64_t* plan_bytes) {
  if (record == nullptr || plan_bytes == nullptr) return nullptr;
  *plan_bytes = static_cast<int64_t>(record->plan.size());
  return record->plan.data();
}

int32_t hajax_sim_record_launches(const hj_sim_record* record) {
  return record == nullptr ? 0 : static_cast<int32_t>(record->results.size());
}

hj_sim_result* hajax_sim_record_result(hj_sim_record* record, int32_t launch) {
  if (launch < 0 || launch >= hajax_sim_record_launches(record)) return nullptr;
  return record->results[static_cast<size_t>(launch)].release();
}

void hajax_sim_record_close(hj_sim_record* record) { delete record; }
