#include "native/emulator/instructions/scalar.h"

#include <math.h>

#include "native/emulator/instructions/arguments.h"

namespace hajax::emulator {
namespace {

constexpr int64_t kBits = 64;

int32_t clamp_to_int32(float whole) {
  if (whole != whole) return 0;
  if (whole >= 2147483648.0f) return INT32_MAX;
  if (whole < -2147483648.0f) return INT32_MIN;
  return static_cast<int32_t>(whole);
}

// Bits of the value towards 0; `inexact` when that lost some.
uint16_t truncated_half(float value, bool* inexact) {
  const float magnitude = fabsf(value);
  uint16_t bits = half_bits(magnitude);
  if (half_to_float(bits) > magnitude) --bits;
  *inexact = half_to_float(bits) != magnitude;
  return bits;
}

void set_register(uint64_t* one, uint64_t value) {
  *one = value;
  core().charge(Instruction::set_register);
}

uint64_t bit(int64_t place, const void* where) {
  if (place < 0 || place >= kBits) {
    core().fail(Check::limit, "place of a bit: expected 0 to 63, got " + std::to_string(place),
                new_issue(Instruction::set_register, where));
  }
  return uint64_t{1} << place;
}

}  // namespace
}  // namespace hajax::emulator

using namespace hajax::emulator;  // NOLINT: the instructions themselves are global

int64_t sff1(uint64_t value) { return value == 0 ? -1 : __builtin_ctzll(value); }
int64_t sff0(uint64_t value) { return ~value == 0 ? -1 : __builtin_ctzll(~value); }
int64_t bcnt1(uint64_t value) { return __builtin_popcountll(value); }
int64_t bcnt0(uint64_t value) { return kBits - __builtin_popcountll(value); }
int64_t clz(uint64_t value) { return value == 0 ? kBits : __builtin_clzll(value); }
int64_t sflbits(int64_t value) {
  const auto differing = static_cast<uint64_t>(value < 0 ? ~value : value);
  return differing == 0 ? -1 : __builtin_clzll(differing) - 1;
}
uint64_t sbitset0(uint64_t value, int64_t place) { return value & ~bit(place, HAJAX_WHERE()); }
uint64_t sbitset1(uint64_t value, int64_t place) { return value | bit(place, HAJAX_WHERE()); }

half conv_f322f16o(float value) {
  constexpr uint16_t kMost = 0x7bff;
  constexpr uint16_t kSign = 0x8000;
  if (value != value) return half::from_bits(0);
  bool inexact;
  uint16_t bits = truncated_half(value, &inexact);
  if (bits > kMost) bits = kMost;
  if (inexact) bits |= 1;
  return half::from_bits(signbit(value) ? static_cast<uint16_t>(bits | kSign) : bits);
}

int32_t conv_f322s32a(float value) { return clamp_to_int32(roundf(value)); }
int32_t conv_f322s32c(float value) { return clamp_to_int32(ceilf(value)); }
int32_t conv_f322s32f(float value) { return clamp_to_int32(floorf(value)); }
int32_t conv_f322s32r(float value) { return clamp_to_int32(rintf(value)); }

void set_fmatrix(uint64_t value) { set_register(&core().registers.fmatrix, value); }
void set_padding(uint64_t value) { set_register(&core().registers.padding, value); }
void set_l1_3d_size(uint64_t value) { set_register(&core().registers.l1_3d_size, value); }

void trap() { core().fail(Check::launch, "the kernel called trap()", HAJAX_WHERE()); }
