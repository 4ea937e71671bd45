// Subnormal numbers count as zero while a kernel runs, on every thread and for every caller, as XLA has it: decayed
// states are full of them, and each costs some processors a hundred cycles. The thread's own mode comes back
// afterwards.
#ifndef HAJAX_NATIVE_CPU_SUBNORMALS_H_
#define HAJAX_NATIVE_CPU_SUBNORMALS_H_

#include <stdint.h>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace hajax::cpu {

class SubnormalsAreZero {
 public:
  SubnormalsAreZero() : before_(get()) { set(before_ | kFlush); }
  ~SubnormalsAreZero() { set(before_); }
  SubnormalsAreZero(const SubnormalsAreZero&) = delete;
  SubnormalsAreZero& operator=(const SubnormalsAreZero&) = delete;

 private:
#if defined(__SSE2__)
  using Mode = uint32_t;
  static constexpr Mode kFlush = 0x8040;  // MXCSR: results (FTZ) and operands (DAZ)
  static Mode get() { return _mm_getcsr(); }
  static void set(Mode mode) { _mm_setcsr(mode); }
#elif defined(__aarch64__)
  using Mode = uint64_t;
  static constexpr Mode kFlush = uint64_t{1} << 24;  // FPCR.FZ: both
  static Mode get() {
    Mode mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
  }
  static void set(Mode mode) { __asm__ volatile("msr fpcr, %0" : : "r"(mode)); }
#else
  using Mode = uint32_t;
  static constexpr Mode kFlush = 0;
  static Mode get() { return 0; }
  static void set(Mode) {}
#endif
  Mode before_;
};

}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_SUBNORMALS_H_
