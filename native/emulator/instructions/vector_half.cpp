#include "native/emulator/instructions/vector_half.h"

#include "native/emulator/instructions/vector_elements.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace hajax::emulator {
namespace {

#if defined(__x86_64__)
bool has_f16c() {  // not a name that clang's __builtin_cpu_supports knows
  unsigned int a, b, c, d;
  return __builtin_cpu_supports("avx") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

// What rounds beyond the largest fp16 is at least the largest fp16, so that clamping first gives the same.
__attribute__((target("avx,f16c"))) void saturate_f16c(const float* from, Half* to, int count) {
  const __m256 most = _mm256_set1_ps(kMostHalf);
  const __m256 least = _mm256_set1_ps(-kMostHalf);
  int i = 0;
  for (; i + 8 <= count; i += 8) {
    __m256 value = _mm256_loadu_ps(from + i);
    value = _mm256_and_ps(value, _mm256_cmp_ps(value, value, _CMP_ORD_Q));
    value = _mm256_max_ps(_mm256_min_ps(value, most), least);
    const __m128i halves = _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), halves);
  }
  for (; i < count; ++i) to[i] = Half::from_bits(saturated_half_bits(from[i]));
}
#endif

}  // namespace

void saturate_halves(const float* from, Half* to, int count) {
#if defined(__x86_64__)
  static const bool f16c = has_f16c();
  if (f16c) return saturate_f16c(from, to, count);
#endif
  for (int i = 0; i < count; ++i) to[i] = Half::from_bits(saturated_half_bits(from[i]));
}

}  // namespace hajax::emulator
