#include "native/emulator/core/barrier.h"

#include <algorithm>

namespace hajax::emulator {

void Barrier::begin() {
  std::unique_lock guard(lock_);
  changed_.wait(guard, [&] { return free_ > 0; });
  --free_;
}

void Barrier::end(int core, bool failed) {
  const std::lock_guard guard(lock_);
  ++free_;
  ++done_;
  arrived_[static_cast<size_t>(core)] = true;
  if (!stuck_) {  // later ends are those of cores that waited
    if (ended_ < 0 || core < ended_) ended_ = core;
    failed_ = failed_ || failed;
    look_whether_stuck();
  }
  changed_.notify_all();
}

int Barrier::wait(int core) {
  std::unique_lock guard(lock_);
  const int round = round_;
  ++free_;
  ++waiting_;
  arrived_[static_cast<size_t>(core)] = true;
  if (waiting_ == cores_) {
    waiting_ = 0;
    ++round_;
    std::fill(arrived_.begin(), arrived_.end(), false);
  }
  look_whether_stuck();
  changed_.notify_all();
  // A failure elsewhere ends the wait, but only after every core has come or ended, so that the report is always the
  // same.
  changed_.wait(guard, [&] { return (round_ != round || stuck_) && free_ > 0; });
  --free_;
  if (round_ != round) return -1;
  if (failed_) throw LaunchAborted();
  return ended_;
}

bool Barrier::lower_arrived(int core) const {
  return std::find(arrived_.begin(), arrived_.begin() + core, false) == arrived_.begin() + core;
}

void Barrier::take_turn(int core) {
  std::unique_lock guard(lock_);
  if (lower_arrived(core)) return;
  ++free_;
  changed_.notify_all();
  changed_.wait(guard, [&] { return lower_arrived(core) && free_ > 0; });
  --free_;
}

}  // namespace hajax::emulator
