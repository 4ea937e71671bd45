// hj_parallel on XLA's thread pool. The caller helps and, when it finds no more items, waits only for those that
// somebody has started: a busy pool costs speed, never a deadlock. A helper that comes late finds nothing to do in a
// job that it keeps alive itself.
#ifndef HAJAX_NATIVE_XLA_POOL_H_
#define HAJAX_NATIVE_XLA_POOL_H_

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "hajax/abi/hajax.h"
#include "native/cpu/relax.h"
#include "xla/ffi/api/ffi.h"

namespace hajax::xla {

constexpr int kSpins = 2000;  // some tens of microseconds

struct PoolJob {
  hj_item item = nullptr;
  void* argument = nullptr;  // the caller's stack: touched only between taking an item and counting it as done
  int64_t items = 0;
  std::atomic<int64_t> next{0};
  std::atomic<int64_t> done{0};
  std::mutex mutex;
  std::condition_variable finished;

  void drain(int32_t worker) {
    int64_t mine = 0;
    for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < items; ++mine) item(argument, i, worker);
    if (mine > 0 && done.fetch_add(mine, std::memory_order_acq_rel) + mine == items) {
      std::lock_guard<std::mutex> lock(mutex);
      finished.notify_all();
    }
  }

  // Most waits end within a task's rest, sooner than a sleeping thread wakes up.
  void wait() {
    for (int i = 0; i < kSpins; ++i) {
      if (done.load(std::memory_order_acquire) == items) return;
      cpu::relax();
    }
    std::unique_lock<std::mutex> lock(mutex);
    finished.wait(lock, [this] { return done.load(std::memory_order_acquire) == items; });
  }
};

// context is the ffi::ThreadPool of the running call.
inline void run_on_pool(void* context, int64_t items, int32_t workers, hj_item item, void* argument) {
  auto& pool = *static_cast<::xla::ffi::ThreadPool*>(context);
  if (items <= 0) return;
  auto job = std::make_shared<PoolJob>();
  job->item = item;
  job->argument = argument;
  job->items = items;
  const int64_t helpers = std::min<int64_t>({workers - 1, items - 1, pool.num_threads()});
  for (int64_t i = 1; i <= helpers; ++i) {
    pool.Schedule([job, worker = static_cast<int32_t>(i)] { job->drain(worker); });
  }
  job->drain(0);
  job->wait();
}

}  // namespace hajax::xla

#endif  // HAJAX_NATIVE_XLA_POOL_H_
