// fp16 as the chip's scalar unit and memories hold it. Conversions round to nearest, ties to even.
#ifndef HAJAX_NATIVE_EMULATOR_CORE_HALF_H_
#define HAJAX_NATIVE_EMULATOR_CORE_HALF_H_

#include <stdint.h>

#include <type_traits>

#pragma GCC visibility push(default)  // kernels convert too
namespace hajax::emulator {

uint16_t half_bits(float value);     // overflow gives infinity, NaN stays NaN
float half_to_float(uint16_t bits);  // exact

// fp64 to fp16 in one rounding; through float it would be two.
uint16_t half_bits(double value);

class Half {
 public:
  Half() = default;
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
  Half(T value) : bits_(convert(value)) {}                 // NOLINT: implicit, as the device's half is
  operator float() const { return half_to_float(bits_); }  // NOLINT
  float ToFloat() const { return half_to_float(bits_); }
  static Half from_bits(uint16_t bits) {
    Half h;
    h.bits_ = bits;
    return h;
  }
  uint16_t bits() const { return bits_; }

 private:
  template <typename T>
  static uint16_t convert(T value) {
    if constexpr (std::is_same_v<T, float>) {
      return half_bits(value);
    } else {
      return half_bits(static_cast<double>(value));
    }
  }
  uint16_t bits_;
};
static_assert(sizeof(Half) == 2 && std::is_trivially_copyable_v<Half>);

// Arrays, with the CPU's own conversion instructions where it has them; the same bits either way.
void half_to_float(const Half* from, float* to, int64_t count);

}  // namespace hajax::emulator
#pragma GCC visibility pop

#endif  // HAJAX_NATIVE_EMULATOR_CORE_HALF_H_
