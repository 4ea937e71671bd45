// The functions of hajax/abi/sim.h: arguments checked, exceptions turned into a status and the thread's last error.
// hajax_sim_execute and its kin, which need the kernel too, are in native/sim.
#include "native/emulator/interface.h"

#include <string.h>

#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "hajax/abi/sim.h"
#include "native/emulator/acl/kernel.h"
#include "native/emulator/acl/runtime.h"
#include "native/emulator/timing/cost.h"
#include "native/emulator/timing/targets.h"
#include "native/emulator/timing/trace.h"

namespace emulator = hajax::emulator;

struct hj_sim_device {
  explicit hj_sim_device(const hj_target& target) : device(target) {}
  emulator::Device device;
};

namespace {

enum Status : int32_t {
#define STATUS(number, name, meaning) name = number,
#include "hajax/abi/statuses.def"
#undef STATUS
};

constexpr const char* kCountNames[] = {
#define COUNT(number, name, unit, meaning) #name,
#include "hajax/abi/counts.def"
#undef COUNT
};
constexpr int kInstructions = 0
#define INSTRUCTION(number, name, pipe, family) +1
#include "hajax/abi/instructions.def"
#undef INSTRUCTION
    ;
static_assert(emulator::kCounts <= HJ_COUNTS && emulator::kPaths <= HJ_PATHS && emulator::kPipes <= HJ_PIPES &&
              emulator::kTimings <= HJ_TIMINGS && kInstructions <= HJ_INSTRUCTIONS);

thread_local std::string last_error;

// Runs `body`; what it throws becomes a status.
template <typename Body>
int32_t guarded(Body&& body) {
  try {
    body();
    return Status::ok;
  } catch (const std::invalid_argument& error) {
    last_error = error.what();
    return Status::bad_call;
  } catch (const std::bad_alloc&) {
    last_error = "out of host memory";
    return Status::internal;
  } catch (const std::exception& error) {
    last_error = error.what();
    return Status::internal;
  }
}

template <typename T>
T& checked(T* pointer, const char* name) {
  if (pointer == nullptr) throw std::invalid_argument(std::string(name) + ": expected an address, got null");
  return *pointer;
}

const uint8_t* checked_range(hj_sim_device* device, uint64_t address, int64_t bytes) {
  checked(device, "device");
  const auto* pointer = reinterpret_cast<const uint8_t*>(static_cast<uintptr_t>(address));
  std::string why;
  if (bytes < 0) throw std::invalid_argument("bytes: expected 0 or more, got " + std::to_string(bytes));
  if (!device->device.holds(pointer, bytes, &why)) {
    throw std::invalid_argument("address: expected " + std::to_string(bytes) + " bytes of device memory, got " + why);
  }
  return pointer;
}

void add(const emulator::CoreCounts& from, const emulator::CoreTiming* timing, hj_sim_counts* to) {
  for (int i = 0; i < emulator::kCounts; ++i) {
    const bool peak = strncmp(kCountNames[i], "peak_", 5) == 0;
    to->counts[i] = !peak                            ? to->counts[i] + from.counts[i]
                    : from.counts[i] > to->counts[i] ? from.counts[i]
                                                     : to->counts[i];
  }
  for (int i = 0; i < emulator::kPaths; ++i) {
    to->path_bytes[i] += from.path_bytes[i];
    to->path_transfers[i] += from.path_transfers[i];
  }
  for (int i = 0; i < HJ_INSTRUCTIONS; ++i) to->instructions[i] += from.instructions[i];
  for (int i = 0; i < emulator::kPipes; ++i) {
    to->pipe_instructions[i] += from.pipe_instructions[i];
    if (timing != nullptr) to->busy_cycles[i] += timing->pipes[i].busy;
  }
}

}  // namespace

namespace hajax::emulator {

void set_last_error(std::string text) { last_error = std::move(text); }

RunOptions run_options(const hj_sim_options& from) {
  RunOptions to;
  if (from.threads < 1) {
    throw std::invalid_argument("threads: expected at least 1, got " + std::to_string(from.threads));
  }
  to.core.threads = from.threads;
  to.core.check_races = from.check_races != 0;
  to.core.check_written = from.check_written != 0;
  to.core.counts_only = from.counts_only != 0;
  to.core.fatal_saturation = from.fatal_saturation != 0;
  to.core.auto_barriers = from.auto_barriers != 0;
  to.warm_l2 = from.warm_l2 != 0;
  to.timeline = from.timeline != 0;
  return to;
}

}  // namespace hajax::emulator

const char* hajax_sim_abi_digest() { return HAJAX_ABI_DIGEST; }
const char* hajax_sim_last_error() { return last_error.c_str(); }

const char* hajax_sim_target_name(int32_t index) {
  const std::vector<const char*> names = emulator::target_names();
  return index < 0 || static_cast<size_t>(index) >= names.size() ? nullptr : names[static_cast<size_t>(index)];
}

const hj_target* hajax_sim_target(const char* name) {
  return name == nullptr ? nullptr : emulator::built_in_target(name);
}

hj_sim_device* hajax_sim_device_open(const hj_target* target) {
  hj_sim_device* device = nullptr;
  guarded([&] {
    if (checked(target, "target").gm_bytes < 1) throw std::invalid_argument("target: gm_bytes: expected 1 or more");
    device = new hj_sim_device(*target);
  });
  return device;
}

void hajax_sim_device_close(hj_sim_device* device) { delete device; }

uint64_t hajax_sim_allocate(hj_sim_device* device, int64_t bytes) {
  uint64_t address = 0;
  guarded([&] {
    address = reinterpret_cast<uintptr_t>(checked(device, "device").device.allocate(bytes));
    if (address == 0) {
      throw std::runtime_error("cannot allocate " + std::to_string(bytes) +
                               " bytes of device memory: " + std::to_string(device->device.gm().used()) + " of " +
                               std::to_string(device->device.target().gm_bytes) + " are in use");
    }
  });
  return address;
}

int32_t hajax_sim_free(hj_sim_device* device, uint64_t address) {
  return guarded([&] {
    if (!checked(device, "device").device.gm().release(reinterpret_cast<void*>(static_cast<uintptr_t>(address)))) {
      throw std::invalid_argument("address: not the start of a live allocation");
    }
  });
}

int32_t hajax_sim_write(hj_sim_device* device, uint64_t address, const void* from, int64_t bytes) {
  return guarded([&] {
    auto* to = const_cast<uint8_t*>(checked_range(device, address, bytes));
    device->device.write(to, &checked(static_cast<const uint8_t*>(from), "from"), bytes);
  });
}

int32_t hajax_sim_read(hj_sim_device* device, uint64_t address, void* to, int64_t bytes) {
  return guarded([&] {
    const uint8_t* from = checked_range(device, address, bytes);
    device->device.read(&checked(static_cast<uint8_t*>(to), "to"), from, bytes);
  });
}

int64_t hajax_sim_unwritten(hj_sim_device* device, uint64_t address, int64_t bytes) {
  int64_t count = -1;
  guarded([&] {
    const uint8_t* from = checked_range(device, address, bytes);
    count = device->device.unwritten(from, bytes);
  });
  return count;
}

void* hajax_sim_library_open(const char* path) {
  void* library = nullptr;
  guarded([&] { library = emulator::open_library(&checked(path, "path")); });
  return library;
}

uint64_t hajax_sim_function(void* library, const char* name) {
  uint64_t address = 0;
  guarded([&] {
    checked(static_cast<uint8_t*>(library), "library");
    address = emulator::find_function(library, &checked(name, "name"));
    if (address == 0) throw std::runtime_error(std::string("the library has no function ") + name);
  });
  return address;
}

void hajax_sim_library_close(void* library) {
  if (library != nullptr) emulator::close_library(library);
}

int32_t hajax_sim_launch(hj_sim_device* device, uint64_t function, const char* kernel, int32_t blocks,
                         const uint64_t* arguments, int32_t count, const hj_sim_options* options,
                         hj_sim_result** result) {
  return guarded([&] {
    checked(result, "result") = nullptr;
    checked(device, "device");
    if (count < 0) throw std::invalid_argument("count: expected 0 or more, got " + std::to_string(count));
    if (count > 0) checked(arguments, "arguments");
    std::vector<uint64_t> words(arguments, arguments + count);
    auto made = std::make_unique<hj_sim_result>();
    made->target = device->device.target();
    made->run = device->device.run(function, &checked(kernel, "kernel"), blocks, std::move(words),
                                   emulator::run_options(checked(options, "options")));
    *result = made.release();
  });
}

void hajax_sim_result_close(hj_sim_result* result) { delete result; }

const char* hajax_sim_result_check(const hj_sim_result* result) {
  return result == nullptr || !result->run->result.fault ? nullptr : result->run->check.c_str();
}

const char* hajax_sim_result_fault(const hj_sim_result* result) {
  return result == nullptr || !result->run->result.fault ? nullptr : result->run->fault.c_str();
}

int32_t hajax_sim_result_blocks(const hj_sim_result* result) {
  return result == nullptr ? 0 : result->run->result.blocks;
}

int32_t hajax_sim_result_counts(const hj_sim_result* result, int32_t core, hj_sim_counts* counts) {
  return guarded([&] {
    const emulator::Run& run = *checked(result, "result").run;
    const auto cores = static_cast<int32_t>(run.result.counts.size());
    if (core < -1 || core >= cores) {
      throw std::invalid_argument("core: expected -1 to " + std::to_string(cores - 1) + ", got " +
                                  std::to_string(core));
    }
    checked(counts, "counts") = hj_sim_counts{};
    for (int32_t i = 0; i < cores; ++i) {
      if (core != -1 && core != i) continue;
      const auto at = static_cast<size_t>(i);
      add(run.result.counts[at], at < run.timing.cores.size() ? &run.timing.cores[at] : nullptr, counts);
    }
  });
}

int32_t hajax_sim_result_timing(const hj_sim_result* result, double* timing) {
  return guarded([&] {
    const emulator::Run& run = *checked(result, "result").run;
    checked(timing, "timing");
    for (int i = 0; i < HJ_TIMINGS; ++i) timing[i] = i < emulator::kTimings ? run.timing.values[i] : 0;
  });
}

const char* hajax_sim_result_trace(hj_sim_result* result) {
  const char* trace = nullptr;
  guarded([&] {
    const emulator::Run& run = *checked(result, "result").run;
    if (!run.l2_before) throw std::invalid_argument("result: the launch kept no timeline, or a check failed");
    if (result->trace.empty()) {
      emulator::L2 l2 = *run.l2_before;
      emulator::Timeline timeline;
      emulator::measure(result->target, run.result, l2, &timeline);
      result->trace = emulator::trace_json(result->target, run.result, timeline, {run.kernel, emulator::source_line});
    }
    trace = result->trace.c_str();
  });
  return trace;
}

double hajax_sim_instruction_cycles(const hj_target* target, int32_t instruction, int64_t units, int64_t bytes,
                                    int32_t path, int64_t missed) {
  if (target == nullptr || instruction < 0 || instruction >= kInstructions || path < -1 || path >= emulator::kPaths ||
      units < 0 || bytes < 0 || missed < 0 || missed > bytes) {
    return -1;
  }
  return emulator::instruction_cycles(*target, static_cast<emulator::Instruction>(instruction), units, bytes,
                                      path < 0 ? emulator::Path::none : static_cast<emulator::Path>(path), missed);
}

int32_t hajax_sim_inject(const char* faults) {
  return guarded([&] {
    emulator::acl::Runtime& runtime = emulator::acl::Runtime::instance();
    const std::lock_guard guard(runtime.lock);
    runtime.injection.set(&checked(faults, "faults"));
    runtime.lost = false;
  });
}
