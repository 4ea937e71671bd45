#include "native/cpu/isa.h"

#include "native/cpu/lists.h"

#if defined(HAJAX_BUILD_X86)
#include <cpuid.h>
#endif

namespace hajax::cpu {
namespace {

#if defined(HAJAX_BUILD_X86)
constexpr unsigned kCpuidFeatures = 1;
constexpr unsigned kCpuidF16c = 1u << 29;  // leaf 1, ecx

bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(kCpuidFeatures, &a, &b, &c, &d) != 0 && (c & kCpuidF16c) != 0;
}

// Asked once: every call of a plan comes here, and under a hypervisor each cpuid is a trap of microseconds.
// __builtin_cpu_supports also asks whether the operating system saves the registers.
bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  return has;
}

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

}  // namespace

const Kernels* built_kernels(int32_t isa) {
  switch (isa) {
    case kIsa_baseline:
      return &kKernelsBaseline;
#if defined(HAJAX_BUILD_X86)
    case kIsa_avx2:
      return &kKernelsAvx2;
    case kIsa_avx512:
      return &kKernelsAvx512;
#endif
#if defined(HAJAX_BUILD_NEON)
    case kIsa_neon:
      return &kKernelsNeon;
#endif
    default:
      return nullptr;
  }
}

bool isa_runs(int32_t isa) {
  if (built_kernels(isa) == nullptr) return false;
#if defined(HAJAX_BUILD_X86)
  if (isa == kIsa_avx2) return has_avx2();
  if (isa == kIsa_avx512) return has_avx512();
#endif
  return true;
}

GramFunction bf16_gram() {
#if defined(HAJAX_BUILD_X86)
  if (has_avx512() && __builtin_cpu_supports("avx512bf16")) return &gram_bf16_avx512;
#endif
  return nullptr;
}

const char* isa_name(int32_t isa) {
  switch (isa) {
#define ISA(number, name, meaning) \
  case number:                     \
    return #name;
#include "hajax/abi/isas.def"
#undef ISA
    default:
      return nullptr;
  }
}

}  // namespace hajax::cpu
