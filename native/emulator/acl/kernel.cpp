#include "native/emulator/acl/kernel.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <ucontext.h>

#include <memory>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "hajax/abi/sim.h"
#include "native/emulator/core/core.h"

namespace hajax::emulator {
namespace {

constexpr int kCaught[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr int kSignals = sizeof(kCaught) / sizeof(kCaught[0]);
constexpr size_t kSignalStack = 64 << 10;

std::mutex handlers_lock;
int handlers_users = 0;
struct sigaction handlers_before[kSignals];

// Where the kernel that runs on this thread goes back to when its code crashes.
struct Landing {
  sigjmp_buf jump;
  volatile sig_atomic_t signal = 0;
  void* volatile address = nullptr;
  void* volatile at = nullptr;  // the instruction that crashed
};
thread_local Landing* landing = nullptr;

void* crashed_at(void* context) {
#if defined(__x86_64__)
  return reinterpret_cast<void*>(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
  return reinterpret_cast<void*>(static_cast<ucontext_t*>(context)->uc_mcontext.pc);
#else
  (void)context;
  return nullptr;
#endif
}

void on_crash(int signal, siginfo_t* info, void* context) {
  Landing* const here = landing;
  if (here != nullptr) {
    landing = nullptr;
    here->signal = signal;
    here->address = info->si_addr;
    here->at = crashed_at(context);
    siglongjmp(here->jump, 1);
  }
  // Not a kernel's: as it would have gone without this handler, when the instruction runs again or abort() goes on.
  for (int i = 0; i < kSignals; ++i) {
    if (kCaught[i] == signal) sigaction(signal, &handlers_before[i], nullptr);
  }
  if (info->si_code <= 0) raise(signal);  // sent, not caused by an instruction
}

// A stack for the handler, so that a kernel that overflows its own is caught too.
class SignalStack {
 public:
  SignalStack() {
    stack_t now{};
    if (sigaltstack(nullptr, &now) == 0 && (now.ss_flags & SS_DISABLE) == 0) return;  // the thread has one
    memory_ = std::make_unique<uint8_t[]>(kSignalStack);
    stack_t mine{};
    mine.ss_sp = memory_.get();
    mine.ss_size = kSignalStack;
    if (sigaltstack(&mine, nullptr) != 0) memory_.reset();
  }
  ~SignalStack() {
    if (memory_ == nullptr) return;
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    sigaltstack(&none, nullptr);
  }
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  std::unique_ptr<uint8_t[]> memory_;
};

template <size_t>
using Word = uint64_t;

// Calls with every argument there may be: the platform's conventions let a function ignore what it does not take.
template <size_t... I>
__attribute__((no_sanitize("undefined"))) void call(uint64_t function, const uint64_t* words,
                                                    std::index_sequence<I...>) {
  reinterpret_cast<void (*)(Word<I>...)>(static_cast<uintptr_t>(function))(words[I]...);
}

// "the kernel's own code", or the library whose code crashed when that is another.
std::string culprit(uint64_t function, void* at) {
  Dl_info kernel{};
  Dl_info crashed{};
  if (dladdr(reinterpret_cast<void*>(static_cast<uintptr_t>(function)), &kernel) == 0 || dladdr(at, &crashed) == 0 ||
      kernel.dli_fbase == crashed.dli_fbase || crashed.dli_fname == nullptr) {
    return "the kernel's own code";
  }
  return std::string("code of ") + crashed.dli_fname + " that the kernel called";
}

[[noreturn]] void report(const Landing& crash, uint64_t function) {
  std::string text = culprit(function, crash.at);
  Check check = Check::launch;
  switch (crash.signal) {
    case SIGSEGV:
    case SIGBUS: {
      check = Check::out_of_bounds;
      char address[32];
      snprintf(address, sizeof address, "%p", crash.address);
      text += std::string(" used the address ") + address +
              ", which is no memory of the chip (a null or wild pointer, or its stack ran over)";
      break;
    }
    case SIGFPE:
      text += " divided by zero";
      break;
    case SIGABRT:
      text += " aborted (a failed assert, or an exception without a handler)";
      break;
    default:
      text += " ran into an illegal instruction (a trap that the compiler put there)";
  }
  // The source line is looked up for return addresses, which lie behind their call.
  const auto* at = static_cast<const uint8_t*>(crash.at);
  core().fail(check, text, at == nullptr ? nullptr : at + 1);
}

struct Landed {
  explicit Landed(Landing* here) { landing = here; }
  ~Landed() { landing = nullptr; }
};

void run(uint64_t function, const std::vector<uint64_t>& words) {
  const SignalStack stack;
  Landing here;
  if (sigsetjmp(here.jump, 1) != 0) report(here, function);
  const Landed landed(&here);
  call(function, words.data(), std::make_index_sequence<HJ_ARGUMENTS>());
}

}  // namespace

void* open_library(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    throw std::runtime_error(reason != nullptr ? reason : path + ": cannot be loaded");
  }
  return library;
}

void close_library(void* library) { dlclose(library); }

uint64_t find_function(void* library, const std::string& name) {
  return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(dlsym(library, name.c_str())));
}

std::function<void()> kernel_body(uint64_t function, std::vector<uint64_t> words) {
  words.resize(HJ_ARGUMENTS);
  return [function, words = std::move(words)] { run(function, words); };
}

CrashGuard::CrashGuard() {
  const std::lock_guard guard(handlers_lock);
  if (handlers_users++ > 0) return;
  struct sigaction mine{};
  mine.sa_sigaction = on_crash;
  mine.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&mine.sa_mask);
  for (int i = 0; i < kSignals; ++i) sigaction(kCaught[i], &mine, &handlers_before[i]);
}

CrashGuard::~CrashGuard() {
  const std::lock_guard guard(handlers_lock);
  if (--handlers_users > 0) return;
  for (int i = 0; i < kSignals; ++i) sigaction(kCaught[i], &handlers_before[i], nullptr);
}

}  // namespace hajax::emulator
