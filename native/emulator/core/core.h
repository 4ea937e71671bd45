// One AI core: its memories, registers, queues and flags, and issue(), through which every instruction goes.
//
// The kernel's C++ code plays the scalar unit. An instruction whose pipe is not held up runs at once, in program order;
// one behind a WaitFlag whose SetFlag has not come waits in its pipe's queue. Program order is a legal order of the
// hardware, and the vector clocks prove that no other legal order gives another result; time is computed afterwards
// from the events.
#ifndef HAJAX_NATIVE_EMULATOR_CORE_CORE_H_
#define HAJAX_NATIVE_EMULATOR_CORE_CORE_H_

#include <stdint.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "hajax/abi/target.h"
#include "native/emulator/core/issue.h"
#include "native/emulator/core/launch.h"

namespace hajax::emulator {

class Shadow;   // never-written bytes and races: checks/shadow.h
class Queues;   // pipes, flags, vector clocks: core/queues.h
class Usage;    // bytes in use: checks/usage.h
class Barrier;  // SyncAll between cores: core/launch.cpp

// Special registers that instructions read. Changing one costs scalar cycles: use the setters of Core.
struct Registers {
  bool counter_mode = false;
  // No lane until the kernel sets some: what the kernel before it has left is not known.
  uint64_t mask_high = 0;
  uint64_t mask_low = 0;          // in counter mode: the number of elements
  uint64_t compare_mask[2] = {};  // set by vcmp, read by vsel
  uint64_t ctrl = 0;
  uint64_t deq_scale = 0;
  uint64_t padding = 0;
  uint64_t fmatrix = 0;
  uint64_t l1_3d_size = 0;
  uint64_t va[8][2] = {};  // address registers of vnchwconv: four 16-bit block addresses each word
  uint64_t max_min_value = 0, max_min_index = 0;  // of vcmax, vcmin
  uint64_t accumulated = 0;                       // of vcadd
  uint64_t reserved_count = 0;                    // of vreduce
  enum class Atomic : uint8_t { none, f32, f16, s16, s32, s8 } atomic = Atomic::none;
};

class Core {
 public:
  Core(const hj_target& target, Gm& gm, const Options& options, const std::string& kernel, int index, int blocks,
       Barrier* barrier, CoreCounts& counts, CoreRecord& record);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  // Memories. Each space of the core is 4 KiB aligned in host memory.
  uint8_t* base(Space space) const { return base_[static_cast<int>(space)]; }
  int64_t size(Space space) const { return size_[static_cast<int>(space)]; }  // UB without the reserve
  int64_t offset(Space space, const void* pointer) const;                     // may be out of range
  // The memory that holds a host pointer; false when none does.
  bool locate(const void* pointer, Space* space) const;

  // Checks, counts and records `what`, and runs `compute` now or when the pipe's queue comes to it. compute sees the
  // registers as they are when it runs, so it captures those it needs by value. Throws FaultError.
  template <typename Compute>
  void issue(const Issue& what, Compute&& compute) {
    if (admit(what)) {
      execute(what);
      if (computes(what)) compute();
    } else {
      defer(what, computes(what) ? std::function<void()>(std::forward<Compute>(compute)) : std::function<void()>());
    }
  }
  void issue(const Issue& what) {
    issue(what, [] {});
  }
  // Whether an instruction does its work: counts alone need none, but for what a kernel may read of GM through UB.
  bool computes(const Issue& what) const { return !options_.counts_only || what.path == Path::gm_to_ub; }

  // S reads or writes memory itself (GetValue, SetValue): the same checks, then the caller may touch the bytes.
  void scalar_access(Space space, const void* address, int64_t bytes, bool write, const void* where);

  // Synchronisation; `all` is PIPE_ALL.
  void set_flag(Pipe from, Pipe to, int32_t event, const void* where);
  void wait_flag(Pipe from, Pipe to, int32_t event, const void* where);
  void pipe_barrier(Pipe pipe, bool all, const void* where);
  void sync_all(const void* where);

  // Cost of scalar work: setters of registers, address arithmetic.
  void charge(Instruction instruction);  // counts it and charges its start cycles to S
  void charge_cycles(double cycles);

  // For a computation whose result depends on the order of the cores: waits for the lower ones to come to their next
  // SyncAll or end.
  void take_turn();

  // Values clamped to their type's range by the running computation.
  void saturated(uint64_t values, const Issue& what);

  // Buffers of TPipe: an access that starts in one must end in it.
  void buffer_defined(Space space, int64_t offset, int64_t bytes);
  void buffers_cleared();

  // Tensors of TPipe and TQue, for peak bytes and use after FreeTensor. Offsets in bytes.
  void tensor_allocated(Space space, int64_t offset, int64_t bytes);
  void tensor_freed(Space space, int64_t offset, int64_t bytes);

  // While open, instructions may use the reserve at the top of UB: the API's own temporaries.
  void open_reserve(bool open) { reserve_open_ = open; }

  [[noreturn]] void fail(Check check, std::string text, const void* where);
  [[noreturn]] void fail(Check check, std::string text, const Issue& what);

  void finish();  // end of the kernel: everything drained, every flag paired

  Registers registers;
  std::string step;          // named by the kernel, for messages
  uint32_t step_number = 0;  // likewise, of kernels that walk through steps
  const hj_target& target() const { return target_; }
  const Options& options() const { return options_; }
  int index() const { return index_; }
  int blocks() const { return blocks_; }
  const std::string& kernel() const { return kernel_; }
  Gm& gm() const { return gm_; }
  CoreCounts& counts() { return counts_; }

 private:
  bool admit(const Issue& what);    // checks that need no order; true when it may run now
  void execute(const Issue& what);  // order-dependent checks, counters, events
  void defer(const Issue& what, std::function<void()> compute);
  void check_access(const Issue& what, const Access& access);
  void follow(const Issue& what);  // order-dependent checks of what has just started
  bool insert_barrier(const Issue& what, Pipe other);
  void count(const Issue& what);
  void record(const Issue& what, uint8_t which);
  void record_gm(const Issue& what, const Access& access);
  void run_ready();
  void run_sync(const Issue& what);

  const hj_target& target_;
  Gm& gm_;
  const Options options_;
  const std::string kernel_;
  const int index_;
  const int blocks_;
  Barrier* const barrier_;
  CoreCounts& counts_;
  CoreRecord& record_;
  uint8_t* base_[kSpaces] = {};
  int64_t size_[kSpaces] = {};
  std::unique_ptr<uint8_t[]> memory_;
  std::unique_ptr<Shadow> shadow_;
  std::unique_ptr<Usage> usage_;
  std::unique_ptr<Queues> queues_;
  Gm::Block gm_block_;                           // looked at last
  std::map<int64_t, int64_t> buffers_[kSpaces];  // offset -> bytes
  bool reserve_open_ = false;
  double scalar_cycles_ = 0;  // since the last event
  double scalar_total_ = 0;
  uint32_t epoch_ = 0;
};

// The core whose kernel code runs on this thread. Outside of a kernel: an error is thrown.
Core& core();

}  // namespace hajax::emulator

#endif  // HAJAX_NATIVE_EMULATOR_CORE_CORE_H_
