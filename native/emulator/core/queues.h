// The six pipes of a core as queues, event flags between them, and the vector clocks that say what is ordered.
#ifndef HAJAX_NATIVE_EMULATOR_CORE_QUEUES_H_
#define HAJAX_NATIVE_EMULATOR_CORE_QUEUES_H_

#include <stdint.h>

#include <array>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "native/emulator/core/fault.h"
#include "native/emulator/core/issue.h"

namespace hajax::emulator {

// How many instructions of each pipe are known to be complete.
using Clock = std::array<uint32_t, kPipes>;
void join(Clock& clock, const Clock& other);

class Queues {
 public:
  static constexpr int kMostEvents = 16;

  struct Pending {
    Issue what;
    std::function<void()> compute;
    Clock issued;
  };

  explicit Queues(int64_t depth) : depth_(depth) {}

  // Program order: notes a set or a wait as S meets it. Returns what is wrong, or "".
  std::string note_set(const Issue& set);
  std::string note_wait(const Issue& wait);

  bool idle(Pipe pipe) const { return queue_[index(pipe)].empty(); }
  bool any_waiting() const;
  bool full(Pipe pipe) const { return static_cast<int64_t>(queue_[index(pipe)].size()) >= depth_; }
  bool flag_is_up(const Issue& wait) const { return !flag(wait).up.empty(); }

  void push(const Issue& what, std::function<void()> compute);
  // The pending instruction that can run now, moved out of its queue; false when every queue is empty or held up.
  bool pop_ready(Pending* next);

  // Moves the clocks as `what` starts on its pipe. `issued` is S's clock when it was issued.
  void start(const Issue& what, const Clock& issued);
  void barrier(Pipe pipe);         // everything before it on the pipe is complete
  void barrier_before(Pipe pipe);  // everything before the instruction that started last is complete
  void drain_all();                // S has seen every pipe complete

  const Clock& clock(Pipe pipe) const { return clock_[index(pipe)]; }
  uint32_t number(Pipe pipe) const { return number_[index(pipe)]; }  // of the instruction that started last
  uint32_t next_number(Pipe pipe) const;                             // of the one issued next
  Place place(Pipe pipe, uint32_t number) const;

  std::string waiting_text() const;  // what every held-up pipe waits for
  const Issue* first_waiting() const;
  // A flag that was set and never waited for; false when there is none.
  bool unpaired(Place* set, std::string* text) const;

 private:
  struct Flag {
    std::deque<Clock> up;  // sets that no wait has taken, oldest first
    int balance = 0;       // sets less waits in program order
    Place set, wait;       // the last of each, in program order
  };
  struct Logged {
    uint32_t number = 0;
    Instruction instruction{};
    const void* where = nullptr;
    uint32_t step = 0;
  };
  static constexpr uint32_t kLog = 1024;

  static size_t index(Pipe pipe) { return static_cast<size_t>(pipe); }
  Flag& flag(const Issue& what) { return flags_[index(what.from)][index(what.to)][what.event]; }
  const Flag& flag(const Issue& what) const { return flags_[index(what.from)][index(what.to)][what.event]; }

  const int64_t depth_;
  std::deque<Pending> queue_[kPipes];
  Clock clock_[kPipes] = {};
  uint32_t number_[kPipes] = {};
  Flag flags_[kPipes][kPipes][kMostEvents];
  std::vector<Logged> log_[kPipes];
};

}  // namespace hajax::emulator

#endif  // HAJAX_NATIVE_EMULATOR_CORE_QUEUES_H_
