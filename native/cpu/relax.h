// A moment's rest in a loop that waits for another thread: leaves the core's other thread its share, and saves power.
#ifndef HAJAX_NATIVE_CPU_RELAX_H_
#define HAJAX_NATIVE_CPU_RELAX_H_

namespace hajax::cpu {

inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_RELAX_H_
