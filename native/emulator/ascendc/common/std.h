// The little of a standard library that device code has: AscendC::Std, and rounding helpers.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_STD_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_STD_H_

#include <type_traits>

#include "native/emulator/ascendc/common/macros.h"

namespace AscendC {
namespace Std {

using std::conditional;
using std::conditional_t;
using std::decay;
using std::decay_t;
using std::enable_if;
using std::enable_if_t;
using std::false_type;
using std::integral_constant;
using std::is_array;
using std::is_array_v;
using std::is_base_of;
using std::is_base_of_v;
using std::is_const;
using std::is_convertible;
using std::is_convertible_v;
using std::is_floating_point;
using std::is_floating_point_v;
using std::is_integral;
using std::is_integral_v;
using std::is_pointer;
using std::is_pointer_v;
using std::is_reference;
using std::is_reference_v;
using std::is_same;
using std::is_same_v;
using std::is_void;
using std::is_void_v;
using std::remove_const;
using std::remove_const_t;
using std::remove_cv;
using std::remove_cv_t;
using std::remove_pointer;
using std::remove_pointer_t;
using std::remove_reference;
using std::remove_reference_t;
using std::true_type;

template <typename T>
constexpr T min(const T& a, const T& b) {
  return b < a ? b : a;
}
template <typename T>
constexpr T max(const T& a, const T& b) {
  return a < b ? b : a;
}
template <typename T>
constexpr T abs(const T& a) {
  return a < T(0) ? T(-a) : a;
}
template <typename T>
constexpr remove_reference_t<T>&& move(T&& value) noexcept {
  return static_cast<remove_reference_t<T>&&>(value);
}
template <typename T>
constexpr T&& forward(remove_reference_t<T>& value) noexcept {
  return static_cast<T&&>(value);
}

}  // namespace Std

template <typename T>
using PrimT = T;

template <typename T, typename U>
struct IsSameType : std::is_same<T, U> {};

template <bool condition, typename A, typename B>
struct Conditional : std::conditional<condition, A, B> {};

template <typename... Members>
struct Tuple {};

// Whether T is one of the others.
template <typename T, typename... Others>
constexpr bool SupportType() {
  return (std::is_same_v<T, Others> || ...);
}
template <typename T, int... sizes>
constexpr bool SupportBytes() {
  return ((static_cast<int>(sizeof(T)) == sizes) || ...);
}

constexpr uint32_t DivCeil(uint32_t a, uint32_t b) { return (a + b - 1) / b; }
constexpr uint32_t AlignUp(uint32_t a, uint32_t b) { return DivCeil(a, b) * b; }
constexpr int32_t CeilDivision(int32_t a, int32_t b) { return b == 0 ? 0 : (a + b - 1) / b; }

}  // namespace AscendC

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_STD_H_
