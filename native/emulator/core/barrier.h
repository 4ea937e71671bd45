// Host threads of a launch: how many run at once, and SyncAll between the cores that they play.
#ifndef HAJAX_NATIVE_EMULATOR_CORE_BARRIER_H_
#define HAJAX_NATIVE_EMULATOR_CORE_BARRIER_H_

#include <condition_variable>
#include <mutex>
#include <vector>

namespace hajax::emulator {

struct LaunchAborted {};  // thrown in cores that wait for one that failed

class Barrier {
 public:
  Barrier(int cores, int threads) : cores_(cores), free_(threads), arrived_(static_cast<size_t>(cores)) {}

  void begin();                     // waits for a free host thread
  void end(int core, bool failed);  // this core is done

  // All cores have come, or -1; otherwise a core that ended without coming. Throws LaunchAborted when one has failed.
  int wait(int core);

  // Waits until all lower cores have come to the next SyncAll or ended: what cores do after it, they do in their order,
  // whatever the number of threads.
  void take_turn(int core);

 private:
  bool lower_arrived(int core) const;
  void look_whether_stuck() { stuck_ = stuck_ || (ended_ >= 0 && waiting_ > 0 && waiting_ + done_ == cores_); }

  const int cores_;
  int free_;
  int waiting_ = 0;
  int done_ = 0;
  int ended_ = -1;  // the lowest core that is done
  int round_ = 0;
  bool failed_ = false;
  bool stuck_ = false;         // for good: all who wait are let go, and told the same
  std::vector<bool> arrived_;  // at the next SyncAll, or at the end
  std::mutex lock_;
  std::condition_variable changed_;
};

}  // namespace hajax::emulator

#endif  // HAJAX_NATIVE_EMULATOR_CORE_BARRIER_H_
