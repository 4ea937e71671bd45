#include "native/cpu/pool.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

namespace hajax::cpu {
namespace {

// One job at a time. Helpers sleep until a job wants more of them than have come, take a worker's number and share its
// items; one that wakes late finds the job closed and is not waited for. Never destroyed: its threads are never joined.
class Pool {
 public:
  // False, with nothing done, when somebody else's job is running.
  bool run(int64_t items, int32_t helpers, hj_item item, void* argument) {
    if (busy_.exchange(true, std::memory_order_acquire)) return false;
    start(helpers);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      item_ = item;
      argument_ = argument;
      items_ = items;
      wanted_ = helpers;
      next_.store(0, std::memory_order_relaxed);
    }
    wake_.notify_all();
    drain(item, argument, items, 0);
    {
      std::unique_lock<std::mutex> lock(mutex_);
      wanted_ = 0;
      finished_.wait(lock, [this] { return working_ == 0; });
      joined_ = 0;
    }
    busy_.store(false, std::memory_order_release);
    return true;
  }

 private:
  // Only the owner of busy_ comes here. A system that gives no more threads costs speed, nothing else.
  void start(int32_t helpers) {
    try {
      for (; started_ < helpers; ++started_) std::thread([this] { serve(); }).detach();
    } catch (const std::system_error&) {
    }
  }

  void serve() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] { return joined_ < wanted_; });
      const int32_t worker = ++joined_;
      const hj_item item = item_;
      void* const argument = argument_;
      const int64_t items = items_;
      ++working_;
      lock.unlock();
      drain(item, argument, items, worker);
      lock.lock();
      if (--working_ == 0) finished_.notify_one();
    }
  }

  void drain(hj_item item, void* argument, int64_t items, int32_t worker) {
    for (int64_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < items;) item(argument, i, worker);
  }

  std::atomic<bool> busy_{false};
  std::atomic<int64_t> next_{0};
  int32_t started_ = 0;
  std::mutex mutex_;  // guards all below
  std::condition_variable wake_;
  std::condition_variable finished_;
  hj_item item_ = nullptr;
  void* argument_ = nullptr;
  int64_t items_ = 0;
  int32_t wanted_ = 0;   // helpers that the open job may have; 0 when none is open
  int32_t joined_ = 0;   // helpers that came to it
  int32_t working_ = 0;  // of those, not yet done
};

std::atomic<Pool*> current_pool{nullptr};

// The child of a fork has none of the parent's threads, and its pool may be locked for ever: it gets another at need.
void forget_pool() { current_pool.store(nullptr, std::memory_order_relaxed); }

const int fork_handler = pthread_atfork(nullptr, nullptr, forget_pool);

// Null where no fork handler could be registered: then every caller works alone.
Pool* pool() {
  if (fork_handler != 0) return nullptr;
  Pool* found = current_pool.load(std::memory_order_acquire);
  if (found != nullptr) return found;
  Pool* made = new Pool;
  if (current_pool.compare_exchange_strong(found, made, std::memory_order_acq_rel)) return made;
  delete made;  // it has started no thread
  return found;
}

// A hj_parallel knows its threads by where in this array its context points.
char threads_of_context[kMostThreads + 1];

void run(void* context, int64_t items, int32_t workers, hj_item item, void* argument) {
  const int64_t threads = static_cast<char*>(context) - threads_of_context;
  const int64_t helpers = std::min<int64_t>({threads - 1, int64_t{workers} - 1, items - 1});
  if (helpers > 0) {
    Pool* const shared = pool();
    if (shared != nullptr && shared->run(items, static_cast<int32_t>(helpers), item, argument)) return;
  }
  for (int64_t i = 0; i < items; ++i) item(argument, i, 0);
}

constexpr std::array<hj_parallel, kMostThreads + 1> make_table() {
  std::array<hj_parallel, kMostThreads + 1> table{};
  for (int32_t i = 0; i <= kMostThreads; ++i) {
    table[static_cast<size_t>(i)].context = threads_of_context + i;
    table[static_cast<size_t>(i)].run = run;
  }
  return table;
}

constexpr std::array<hj_parallel, kMostThreads + 1> parallels = make_table();

}  // namespace

const hj_parallel* parallel_of(int32_t threads) {
  return &parallels[static_cast<size_t>(std::clamp(threads, int32_t{1}, kMostThreads))];
}

}  // namespace hajax::cpu

extern "C" const hj_parallel* hajax_cpu_parallel(int32_t threads) { return hajax::cpu::parallel_of(threads); }
