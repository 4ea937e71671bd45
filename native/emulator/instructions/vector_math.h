// Elementary functions in double, written so that loops over them become vector code and give the same bits whatever C
// library is there. Relative error below 1e-11: rounded to fp32 or fp16 afterwards, they are the correctly rounded
// values but for one fp32 result in some thousands, which is its neighbour.
#ifndef HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_VECTOR_MATH_H_
#define HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_VECTOR_MATH_H_

#include <math.h>
#include <stdint.h>
#include <string.h>

namespace hajax::emulator {

inline double double_of(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

inline uint64_t bits_of(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline constexpr double kRoundMagic = 6755399441055744.0;  // 1.5 * 2^52: adding it drops the fraction, to nearest even

// To a whole number. Magnitudes from 2^51 on, which every integer type here clamps anyway, may be off by one.
inline double round_even(double value) { return (value + kRoundMagic) - kRoundMagic; }
inline double round_down(double value) {
  const double near = round_even(value);
  return near > value ? near - 1 : near;
}
inline double round_up(double value) {
  const double near = round_even(value);
  return near < value ? near + 1 : near;
}
inline double round_to_zero(double value) { return value < 0 ? round_up(value) : round_down(value); }
inline double round_away(double value) {  // ties away from zero
  return value < 0 ? round_up(value - 0.5) : round_down(value + 0.5);
}

// e^x as 2^n * e^r with |r| <= ln(2) / 2. Results beyond 2^+-200 all overflow or vanish in fp32.
inline double exponential(double x) {
  constexpr double kLog2e = 1.4426950408889634;
  constexpr double kLn2High = 6.93147180369123816490e-01;  // its low 32 bits are 0: n * kLn2High is exact
  constexpr double kLn2Low = 1.90821492927058770002e-10;
  constexpr double kMost = 138;
  double inside = x > kMost ? kMost : x;
  inside = inside < -kMost ? -kMost : inside;  // NaN stays NaN
  const double shifted = inside * kLog2e + kRoundMagic;
  const double n = shifted - kRoundMagic;
  const double r = (inside - n * kLn2High) - n * kLn2Low;
  double sum = 1.0 / 362880;  // 1 / 9!
  sum = sum * r + 1.0 / 40320;
  sum = sum * r + 1.0 / 5040;
  sum = sum * r + 1.0 / 720;
  sum = sum * r + 1.0 / 120;
  sum = sum * r + 1.0 / 24;
  sum = sum * r + 1.0 / 6;
  sum = sum * r + 0.5;
  sum = sum * r + 1;
  sum = sum * r + 1;
  // The magic number's low bits hold n; NaN gives some power, and NaN times it is NaN.
  return sum * double_of((bits_of(shifted) + 1023) << 52);
}

// ln(x) as e * ln(2) + ln(m), m within [sqrt(1/2), sqrt(2)], ln(m) = 2 atanh((m - 1) / (m + 1)).
inline double logarithm(double x) {
  constexpr uint64_t kHalfRoot = 0x3fe6a09e667f3bcd;  // sqrt(1/2)
  constexpr double kLn2High = 6.93147180369123816490e-01;
  constexpr double kLn2Low = 1.90821492927058770002e-10;
  constexpr double kBias = 4503599627370496.0 + 1023;  // 2^52 + bias
  const uint64_t bits = bits_of(x);
  const uint64_t offset = bits - kHalfRoot + (uint64_t{1023} << 52);  // its exponent field is e + 1023
  const double e = double_of((uint64_t{1075} << 52) | (offset >> 52)) - kBias;
  const double m = double_of(bits - (offset & ~((uint64_t{1} << 52) - 1)) + (uint64_t{1023} << 52));
  const double s = (m - 1) / (m + 1);
  const double q = s * s;
  double sum = 1.0 / 15;
  sum = sum * q + 1.0 / 13;
  sum = sum * q + 1.0 / 11;
  sum = sum * q + 1.0 / 9;
  sum = sum * q + 1.0 / 7;
  sum = sum * q + 1.0 / 5;
  sum = sum * q + 1.0 / 3;
  sum = sum * q * s + s;
  const double value = e * kLn2High + (2 * sum + e * kLn2Low);
  const double infinity = double_of(uint64_t{0x7ff} << 52);
  double result = x > 0 ? value : double_of(uint64_t{0x7ff8} << 48);  // negative or NaN: NaN
  result = x == 0 ? -infinity : result;
  return x == infinity ? infinity : result;
}

}  // namespace hajax::emulator

#endif  // HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_VECTOR_MATH_H_
