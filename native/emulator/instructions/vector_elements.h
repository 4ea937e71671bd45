// Elements of vector operands: the type that arithmetic is done in, and the way back, which rounds once and saturates.
//
// Rounding: to nearest, ties to even. fp16 results never are infinite or NaN: what is beyond +-65504 becomes +-65504
// and NaN becomes 0, the documented saturation mode, which is the only one that a 310P's AI core is used in. Integers
// are clamped to their type. fp32 follows IEEE.
#ifndef HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_VECTOR_ELEMENTS_H_
#define HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_VECTOR_ELEMENTS_H_

#include <stdint.h>
#include <string.h>

#include <limits>
#include <type_traits>

#include "native/emulator/core/half.h"

namespace hajax::emulator {

// fp16 sums, products, quotients and roots through float are rounded as if once: 24 >= 2 * 11 + 2 bits.
template <typename T>
struct WideType {
  using type = T;
};
template <>
struct WideType<Half> {
  using type = float;
};
template <>
struct WideType<int8_t> {
  using type = int32_t;
};
template <>
struct WideType<uint8_t> {
  using type = int32_t;
};
template <>
struct WideType<int16_t> {
  using type = int32_t;
};
template <>
struct WideType<int32_t> {
  using type = int64_t;
};
template <typename T>
using Wide = typename WideType<T>::type;

inline constexpr float kMostHalf = 65504;
inline constexpr float kHalfOverflow = 65520;  // the smallest magnitude that rounds beyond the largest fp16

inline uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

template <typename V>
bool is_finite(V value) {
  if constexpr (std::is_floating_point_v<V>) {
    return value - value == 0;
  } else {
    return true;
  }
}

// fp16 bits of a float, saturated. Without branches, so that loops over it become vector code.
inline uint16_t saturated_half_bits(float value) {
  constexpr uint32_t kSmallestNormal = uint32_t{113} << 23;  // 2^-14
  constexpr uint32_t kAlign = uint32_t{126} << 23;           // 0.5: adding it shifts a subnormal's bits into place
  constexpr uint32_t kRebias = (uint32_t{127} - 15) << 23;
  const uint32_t bits = bits_of(value);
  const uint32_t sign = bits >> 16 & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  const uint32_t odd = magnitude >> 13 & 1;
  const uint32_t normal = (magnitude - kRebias + 0xfff + odd) >> 13;
  const uint32_t subnormal = bits_of(float_of(magnitude) + float_of(kAlign)) - kAlign;
  uint32_t half = magnitude < kSmallestNormal ? subnormal : normal;
  half = magnitude >= bits_of(kHalfOverflow) ? 0x7bff : half;
  const uint32_t keep = magnitude > 0x7f800000 ? 0 : 0xffff;  // NaN: 0
  return static_cast<uint16_t>((half | sign) & keep);
}

// A double as a float with its last bit set when bits were lost: rounding that float to fp16 then is one rounding.
inline float odd_float(double value) {
  constexpr uint64_t kLost = (uint64_t{1} << 29) - 1;
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  bits = (bits & ~kLost) | (((bits & kLost) + kLost) & (kLost + 1));
  memcpy(&value, &bits, sizeof value);
  return static_cast<float>(value);
}

// Whether a result does not fit T, so that narrow() changes its value beyond rounding.
template <typename T, typename R>
bool outside(R value) {
  if constexpr (std::is_same_v<T, R>) {
    return false;
  } else if constexpr (std::is_same_v<T, Half>) {
    return !(value > -kHalfOverflow && value < kHalfOverflow);
  } else if constexpr (std::is_same_v<T, float>) {
    return false;
  } else {
    return !(value >= static_cast<R>(std::numeric_limits<T>::min()) &&
             value <= static_cast<R>(std::numeric_limits<T>::max()));
  }
}

template <typename T, typename R>
T narrow(R value) {
  if constexpr (std::is_same_v<T, R>) {
    return value;
  } else if constexpr (std::is_same_v<T, Half>) {
    if constexpr (std::is_same_v<R, double>) {
      return Half::from_bits(saturated_half_bits(odd_float(value)));
    } else {
      return Half::from_bits(saturated_half_bits(static_cast<float>(value)));
    }
  } else if constexpr (std::is_same_v<T, float>) {
    return static_cast<float>(value);
  } else {
    static_assert(!std::is_floating_point_v<R> || sizeof(R) > sizeof(T), "the bounds of T must be exact in R");
    constexpr R kLeast = static_cast<R>(std::numeric_limits<T>::min());
    constexpr R kMost = static_cast<R>(std::numeric_limits<T>::max());
    R inside = value < kLeast ? kLeast : value;
    inside = inside > kMost ? kMost : inside;
    inside = inside == inside ? inside : R{};  // NaN
    return static_cast<T>(inside);
  }
}

template <typename T>
void widen(const T* from, Wide<T>* to, int count) {
  if constexpr (std::is_same_v<T, Half>) {
    half_to_float(from, to, count);
  } else {
    for (int i = 0; i < count; ++i) to[i] = from[i];
  }
}

}  // namespace hajax::emulator

#endif  // HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_VECTOR_ELEMENTS_H_
