#include "native/emulator/core/half.h"

#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace hajax::emulator {
namespace {

constexpr uint32_t kHalfInfinity = 0x7c00;
constexpr uint32_t kHalfQuiet = 0x0200;  // the bit that makes a NaN quiet
constexpr int kHalfMantissa = 10;
constexpr int kHalfBias = 15;

uint32_t float_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

float bits_float(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// Drops `shift` bits, to nearest, ties to even. A carry out of the mantissa lands in the exponent, which is what it
// should do.
uint64_t round_bits(uint64_t bits, int shift) {
  if (shift > 63) return 0;
  const uint64_t kept = bits >> shift;
  const uint64_t rest = bits & ((uint64_t{1} << shift) - 1);
  const uint64_t tie = uint64_t{1} << (shift - 1);
  return kept + (rest > tie || (rest == tie && (kept & 1)) ? 1 : 0);
}

// A binary float of `mantissa` stored bits and that bias, without its sign, as fp16.
uint16_t narrow(uint64_t magnitude, int mantissa, int bias, uint16_t sign) {
  const uint64_t fraction = magnitude & ((uint64_t{1} << mantissa) - 1);
  const int exponent = static_cast<int>(magnitude >> mantissa);
  if (exponent == 2 * bias + 1) {
    if (fraction == 0) return static_cast<uint16_t>(sign | kHalfInfinity);
    const auto payload = static_cast<uint32_t>(fraction >> (mantissa - kHalfMantissa));
    return static_cast<uint16_t>(sign | kHalfInfinity | kHalfQuiet | payload);
  }
  const int scaled = exponent - bias + kHalfBias;
  if (scaled > 30) return static_cast<uint16_t>(sign | kHalfInfinity);
  uint64_t rounded;
  if (scaled > 0) {
    rounded = round_bits((static_cast<uint64_t>(scaled) << mantissa) | fraction, mantissa - kHalfMantissa);
  } else {  // a half subnormal: the hidden bit joins the fraction (a subnormal of the source is far below the smallest
            // half)
    const uint64_t hidden = exponent == 0 ? 0 : uint64_t{1} << mantissa;
    rounded = round_bits(hidden | fraction, mantissa - kHalfMantissa + 1 - scaled);
  }
  return static_cast<uint16_t>(sign | rounded);
}

// Without branches and without subnormal operands, so that loops vectorise and a host's flush-to-zero mode does no
// harm.
inline float widen(uint16_t bits) {
  constexpr uint32_t kRebias = uint32_t{127 - kHalfBias} << 23;
  constexpr uint32_t kSmallestNormal = kRebias + (uint32_t{1} << 23);
  const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fff) << 13;
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t normal = magnitude + kRebias;
  const uint32_t subnormal = float_bits(bits_float(magnitude + kSmallestNormal) - bits_float(kSmallestNormal));
  const uint32_t quiet = magnitude > (kHalfInfinity << 13) ? kHalfQuiet << 13 : 0;
  uint32_t wide = magnitude < (uint32_t{1} << 23) ? subnormal : normal;
  wide = magnitude >= (kHalfInfinity << 13) ? (magnitude | 0x7f800000u | quiet) : wide;
  return bits_float(sign | wide);
}

void widen_array(const uint16_t* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = widen(from[i]);
}

#if defined(__x86_64__)
bool has_f16c() {  // not a name that clang's __builtin_cpu_supports knows
  unsigned int a, b, c, d;
  return __builtin_cpu_supports("avx") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

__attribute__((target("avx,f16c"))) void widen_array_f16c(const uint16_t* from, float* to, int64_t count) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(halves));
  }
  for (; i < count; ++i) to[i] = widen(from[i]);
}
#endif

}  // namespace

uint16_t half_bits(float value) {
  const uint32_t bits = float_bits(value);
  return narrow(bits & 0x7fffffffu, 23, 127, static_cast<uint16_t>(bits >> 16 & 0x8000));
}

uint16_t half_bits(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return narrow(bits & ~(uint64_t{1} << 63), 52, 1023, static_cast<uint16_t>(bits >> 48 & 0x8000));
}

float half_to_float(uint16_t bits) { return widen(bits); }

void half_to_float(const Half* from, float* to, int64_t count) {
  const auto* bits = reinterpret_cast<const uint16_t*>(from);
#if defined(__x86_64__)
  static const bool f16c = has_f16c();
  if (f16c) return widen_array_f16c(bits, to, count);
#endif
  widen_array(bits, to, count);
}

}  // namespace hajax::emulator
