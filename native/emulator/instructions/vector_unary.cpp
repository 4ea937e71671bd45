// Instructions of one source. Documents: "Exp", "Ln", "Abs", "Reciprocal", "Sqrt", "Rsqrt", "Relu", "Not", "Cast" of
// the public API reference.
//
// vrec and vrsqrt are coarse on the chip (relative error up to about 2^-8 for fp32 too); here they give the accurate
// value. A kernel that needs more than the chip's must refine it, which does no harm here.
//
// Conversions: to integers rounded as the suffix says (r, and none: to nearest even; f: down; c: up; a: to nearest,
// ties away from zero; z: towards zero), clamped, NaN to 0. To fp16: to nearest even, with suffix o to odd (bits that
// are lost set the last bit), saturated.
#include "native/emulator/core/services.h"
#include "native/emulator/instructions/vector.h"
#include "native/emulator/instructions/vector_lanes.h"

namespace hajax::emulator {
namespace lane {
namespace {

struct exponential : LaneFunction {
  double value(float a) const { return emulator::exponential(static_cast<double>(a)); }
};
struct logarithm : LaneFunction {
  double value(float a) const { return emulator::logarithm(static_cast<double>(a)); }
};
struct magnitude : LaneFunction {
  float value(float a) const { return float_of(bits_of(a) & 0x7fffffff); }
};
struct reciprocal : LaneFunction {
  float value(float a) const { return 1 / a; }
};
struct root : LaneFunction {
  float value(float a) const { return sqrtf(a); }
};
struct reciprocal_root : LaneFunction {
  double value(float a) const { return 1 / sqrt(static_cast<double>(a)); }
};
struct relu : LaneFunction {
  template <typename V>
  V value(V a) const {
    return rectified(a);
  }
};
struct bit_not : LaneFunction {
  template <typename V>
  V value(V a) const {
    return static_cast<V>(~a);
  }
};

struct same : LaneFunction {
  template <typename V>
  V value(V a) const {
    return a;
  }
};
struct to_double : LaneFunction {
  double value(int64_t a) const { return static_cast<double>(a); }
};
struct to_float : LaneFunction {
  float value(int32_t a) const { return static_cast<float>(a); }
};
struct nearest : LaneFunction {
  double value(float a) const { return round_even(static_cast<double>(a)); }
};
struct down : LaneFunction {
  double value(float a) const { return round_down(static_cast<double>(a)); }
};
struct up : LaneFunction {
  double value(float a) const { return round_up(static_cast<double>(a)); }
};
struct away : LaneFunction {
  double value(float a) const { return round_away(static_cast<double>(a)); }
};
struct to_zero : LaneFunction {
  double value(float a) const { return round_to_zero(static_cast<double>(a)); }
};

// To odd: the fp16 towards zero, its last bit set when the value lies between two.
struct odd : LaneFunction {
  float value(float a) const {
    constexpr float kTooLarge = 65536;
    if (!(a > -kTooLarge && a < kTooLarge)) return a;
    uint16_t half = saturated_half_bits(a);
    const float near = half_to_float(half);
    if (near == a) return a;
    if ((near < 0 ? -near : near) > (a < 0 ? -a : a)) --half;
    return half_to_float(static_cast<uint16_t>(half | 1));
  }
};

// int32 times the fp16 scale of the register.
struct scaled : LaneFunction {
  double scale = 1;
  double value(int64_t a) const { return static_cast<double>(a) * scale; }
};

}  // namespace
}  // namespace lane

namespace {

struct UnaryStrides {
  int64_t dst_block, src_block, dst_repeat, src_repeat;
};

template <typename Function, typename D, typename S>
void unary(Instruction instruction, const void* where, Function function, D* dst, const S* src, int64_t repeat,
           const UnaryStrides& strides, int64_t reserved0, int64_t reserved1) {
  VectorIssue decoded(instruction, where, lanes_of_types<D, S>(), repeat);
  for (const int64_t value : {reserved0, reserved1}) decoded.reserved("a reserved argument", value);
  issue_lanes<D, S>(decoded, function, operand("dst", dst, strides.dst_block, strides.dst_repeat),
                    {operand("src", const_cast<S*>(src), strides.src_block, strides.src_repeat)}, kWordField);
}

#define HAJAX_LANE(name, type) \
  type function_##name() { return {}; }
#define HAJAX_ROUNDED(name)       \
  HAJAX_LANE(name##f, lane::down) \
  HAJAX_LANE(name##c, lane::up)   \
  HAJAX_LANE(name##a, lane::away) \
  HAJAX_LANE(name##z, lane::to_zero)
HAJAX_LANE(vexp, lane::exponential)
HAJAX_LANE(vln, lane::logarithm)
HAJAX_LANE(vabs, lane::magnitude)
HAJAX_LANE(vrec, lane::reciprocal)
HAJAX_LANE(vsqrt, lane::root)
HAJAX_LANE(vrsqrt, lane::reciprocal_root)
HAJAX_LANE(vrelu, lane::relu)
HAJAX_LANE(vnot, lane::bit_not)
HAJAX_LANE(vconv_f162f32, lane::same)
HAJAX_LANE(vconv_f322f16, lane::same)
HAJAX_LANE(vconv_f322f16o, lane::odd)
HAJAX_LANE(vconv_f322s32r, lane::nearest)
HAJAX_ROUNDED(vconv_f322s32)
HAJAX_LANE(vconv_s322f32, lane::to_double)
HAJAX_LANE(vconv_f162s32r, lane::nearest)
HAJAX_ROUNDED(vconv_f162s32)
HAJAX_LANE(vconv_f162s16r, lane::nearest)
HAJAX_ROUNDED(vconv_f162s16)
HAJAX_LANE(vconv_f162s8, lane::nearest)
HAJAX_ROUNDED(vconv_f162s8)
HAJAX_LANE(vconv_f162u8, lane::nearest)
HAJAX_ROUNDED(vconv_f162u8)
HAJAX_LANE(vconv_s82f16, lane::to_float)
HAJAX_LANE(vconv_u82f16, lane::to_float)
HAJAX_LANE(vconv_s162f16, lane::to_float)
HAJAX_LANE(vcbd_s322s16, lane::same)
#undef HAJAX_ROUNDED
#undef HAJAX_LANE

[[gnu::always_inline]] inline lane::scaled function_vconv_deq() {
  lane::scaled function;
  function.scale = half_to_float(static_cast<uint16_t>(deq_scale(HAJAX_WHERE())));
  function.counts = is_finite(function.scale);
  return function;
}

}  // namespace
}  // namespace hajax::emulator

namespace sim = hajax::emulator;

#define HAJAX_DEFINE(function, instruction, D, S)                                                                 \
  void function(D* dst, const S* src, int64_t repeat, int64_t dst_block_stride, int64_t src_block_stride,         \
                int64_t dst_repeat_stride, int64_t src_repeat_stride, int64_t reserved0, int64_t reserved1) {     \
    sim::unary(sim::Instruction::instruction, HAJAX_WHERE(), sim::function_##function(), dst, src, repeat,        \
               {dst_block_stride, src_block_stride, dst_repeat_stride, src_repeat_stride}, reserved0, reserved1); \
  }
HAJAX_VECTOR_UNARY(HAJAX_DEFINE)
