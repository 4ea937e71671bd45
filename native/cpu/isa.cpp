#include "native/cpu/isa.h"

#include "native/cpu/lists.h"

#if defined(HAJAX_BUILD_X86)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

namespace hajax::cpu {
namespace {

#if defined(HAJAX_BUILD_X86)
constexpr unsigned kCpuidFeatures = 1;
constexpr unsigned kCpuidF16c = 1u << 29;  // leaf 1, ecx
constexpr unsigned kCpuidExtended = 7;
constexpr unsigned kCpuidTiles = 1u << 22 | 1u << 24;  // leaf 7, edx: products of bf16, tiles
constexpr long kRequestPermission = 0x1023;            // ARCH_REQ_XCOMP_PERM
constexpr long kTileData = 18;                         // the state component of the tiles' contents

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

// Linux saves a process's tiles only when that was asked for; where it was refused, AMX is not there.
bool may_use_tiles() {
#if defined(__linux__)
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

bool asks_for_tiles() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!has_avx512() || !__builtin_cpu_supports("avx512bf16")) return false;
  if (__get_cpuid_count(kCpuidExtended, 0, &a, &b, &c, &d) == 0) return false;
  return (d & kCpuidTiles) == kCpuidTiles && may_use_tiles();
}

bool has_amx() {
  static const bool has = asks_for_tiles();  // once, as above
  return has;
}
#endif

}  // namespace

const Kernels* built_kernels(int32_t isa) {
  switch (isa) {
    case kIsa_tiles:
      return &kKernelsTiles;
    case kIsa_baseline:
      return &kKernelsBaseline;
#if defined(HAJAX_BUILD_X86)
    case kIsa_avx2:
      return &kKernelsAvx2;
    case kIsa_avx512:
      return &kKernelsAvx512;
    case kIsa_amx:
      return &kKernelsAmx;
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
  if (isa == kIsa_amx) return has_amx();
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
