// Replays what one core did, in virtual time. It stops wherever cores meet: at GM, and at SyncAll.
#ifndef HAJAX_NATIVE_EMULATOR_TIMING_CORE_CLOCK_H_
#define HAJAX_NATIVE_EMULATOR_TIMING_CORE_CLOCK_H_

#include <stddef.h>
#include <stdint.h>

#include <deque>
#include <vector>

#include "hajax/abi/target.h"
#include "native/emulator/core/event.h"
#include "native/emulator/timing/l2.h"
#include "native/emulator/timing/timeline.h"

namespace hajax::emulator {

// Cycles, modelled.
struct PipeTiming {
  double busy = 0;   // of its instructions; S: scalar work and issuing
  double held = 0;   // in waits and barriers, which end later than they start; S: also for a place in a full queue
  double start = 0;  // of its first instruction
  double end = 0;    // its last result is there
  uint64_t instructions = 0;
};

struct CoreTiming {
  double start = 0;
  double end = 0;
  PipeTiming pipes[kPipes];
};

class CoreClock {
 public:
  enum class Stop { gm, sync_all, end };

  // The core starts at cycle `start`. Slices are collected when the last argument is not null.
  CoreClock(const hj_target& target, const CoreRecord& record, double start, std::vector<Slice>* slices);

  Stop run();                            // on to the next place where cores meet
  double time() const { return time_; }  // when it gets there
  // Of the GM traffic that it stopped at: the first access and one past the last.
  void gm_range(size_t* first, size_t* last) const;
  void serve(const L2Traffic& traffic);  // ends Stop::gm
  void release(double time);             // ends Stop::sync_all
  CoreTiming timing() const;

 private:
  // Sets that no wait has taken yet are up[taken] and following: a set may run again before a held-up wait of its pipe.
  struct Flag {
    struct Up {
      double time;
      uint32_t slice;
    };
    std::vector<Up> up;
    size_t taken = 0;
  };
  struct PipeState {
    double free = 0;      // its next instruction may start
    double done = 0;      // all results are there
    bool drained = true;  // nothing ran right before: the cube pays its start
    uint32_t issued = 0;
    uint32_t started = 0;
    std::vector<double> starts;  // of the last queue_depth instructions
    std::deque<double> pending;  // issue times of instructions that waited in the queue
    PipeTiming timing;
  };

  static constexpr int kEvents = 16;  // ids of one pair of pipes
  const Event& event() const { return record_.events[next_]; }
  PipeState& state(Pipe pipe) { return pipes_[static_cast<int>(pipe)]; }
  Flag& flag(const Event& event);

  double issue(const Event& event);
  void work(const Event& event, const L2Traffic* traffic);
  void set(const Event& event);
  void wait(const Event& event);
  void barrier(const Event& event);
  uint32_t end_instruction(Slice::What what, Pipe pipe, double end, double complete, uint32_t partner = Slice::kNone);
  void scalar_slice(Slice::What what, double start, double end, Pipe full);

  const hj_target& target_;
  const CoreRecord& record_;
  const double start_;
  std::vector<Slice>* const slices_;
  size_t next_ = 0;
  double time_ = 0;  // when the instruction at hand starts
  PipeState pipes_[kPipes];
  std::vector<Flag> flags_;
};

}  // namespace hajax::emulator

#endif  // HAJAX_NATIVE_EMULATOR_TIMING_CORE_CLOCK_H_
