#include "native/emulator/core/barrier.h"

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
  if (ended_ < 0 || core < ended_) ended_ = core;
  failed_ = failed_ || failed;
  changed_.notify_all();
}

int Barrier::wait(int) {
  std::unique_lock guard(lock_);
  const int round = round_;
  ++free_;
  ++waiting_;
  if (waiting_ == cores_) {
    waiting_ = 0;
    ++round_;
  }
  changed_.notify_all();
  // A failure elsewhere ends the wait, but only after every core has come or ended, so that the report is always the
  // same.
  changed_.wait(guard, [&] { return (round_ != round || stuck()) && free_ > 0; });
  --free_;
  if (round_ != round) return -1;
  if (failed_) throw LaunchAborted();
  return ended_;
}

}  // namespace hajax::emulator
