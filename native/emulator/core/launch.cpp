#include "native/emulator/core/launch.h"

#include <exception>
#include <memory>
#include <thread>
#include <utility>

#include "native/emulator/checks/gm_overlap.h"
#include "native/emulator/core/barrier.h"
#include "native/emulator/core/core.h"

namespace hajax::emulator {
namespace {

thread_local Core* current = nullptr;

Fault launch_fault(const std::string& kernel, int core, std::string text) {
  Fault fault;
  fault.check = Check::launch;
  fault.kernel = kernel;
  fault.core = core;
  fault.text = std::move(text);
  return fault;
}

// Runs the kernel as one core; what went wrong comes back as a value.
std::optional<Fault> run_core(const std::function<void()>& body, Core& core, bool* aborted) {
  current = &core;
  std::optional<Fault> fault;
  try {
    body();
    core.finish();
  } catch (const FaultError& error) {
    fault = error.fault();
  } catch (const LaunchAborted&) {
    *aborted = true;
  } catch (const std::exception& error) {
    fault = launch_fault(core.kernel(), core.index(), std::string("the kernel threw an exception: ") + error.what());
  } catch (...) {
    fault = launch_fault(core.kernel(), core.index(), "the kernel threw something that is no exception");
  }
  current = nullptr;
  return fault;
}

}  // namespace

Core& core() {
  if (current == nullptr)
    throw FaultError(launch_fault("", -1, "an instruction was called outside of a launched kernel"));
  return *current;
}

Result launch(const hj_target& target, Gm& gm, const std::string& kernel, int blocks, const Options& options,
              const std::function<void()>& body) {
  Result result;
  result.blocks = blocks;
  if (blocks < 1 || blocks > target.ai_cores) {
    result.fault = launch_fault(kernel, -1,
                                "blocks: expected 1 to " + std::to_string(target.ai_cores) +
                                    " (the chip's AI cores), got " + std::to_string(blocks));
    return result;
  }
  if (options.threads < 1) {
    result.fault = launch_fault(kernel, -1, "threads: expected at least 1, got " + std::to_string(options.threads));
    return result;
  }
  if (current != nullptr) {
    result.fault = launch_fault(kernel, -1, "a kernel launched another");
    return result;
  }
  const auto count = static_cast<size_t>(blocks);
  result.counts.resize(count);
  result.records.resize(count);
  std::vector<std::optional<Fault>> faults(count);
  Barrier barrier(blocks, options.threads);
  const auto play = [&](int index) {
    barrier.begin();
    const auto i = static_cast<size_t>(index);
    bool aborted = false;
    try {
      Core one(target, gm, options, kernel, index, blocks, &barrier, result.counts[i], result.records[i]);
      faults[i] = run_core(body, one, &aborted);
    } catch (const std::exception& error) {
      faults[i] = launch_fault(kernel, index, std::string("the emulator ran out of resources: ") + error.what());
    }
    barrier.end(index, aborted || faults[i].has_value());
  };
  std::vector<std::thread> threads;
  for (int index = 1; index < blocks; ++index) threads.emplace_back(play, index);
  play(0);
  for (auto& thread : threads) thread.join();
  for (auto& fault : faults) {
    if (!fault) continue;
    result.fault = std::move(fault);
    return result;
  }
  if (options.check_races) result.fault = check_gm_overlap(kernel, result.records, gm);
  return result;
}

}  // namespace hajax::emulator
