// Instructions of two sources and a destination. Documents: "Add", "Sub", "Mul", "Div", "Max", "Min", "And", "Or",
// "AddRelu", "SubRelu", "AddDeqRelu", "MulCast", "AddReluCast", "SubReluCast", "MulAddDst", "FusedMulAdd",
// "FusedMulAddRelu" of the public API reference.
#include "native/emulator/core/services.h"
#include "native/emulator/instructions/vector.h"
#include "native/emulator/instructions/vector_lanes.h"

namespace hajax::emulator {
namespace {

struct BinaryStrides {
  int64_t dst_block, src0_block, src1_block, dst_repeat, src0_repeat, src1_repeat;
};

struct Reserved {
  int64_t first, second, third;
};

template <typename Function, typename D, typename S>
void binary(Instruction instruction, const void* where, Function function, D* dst, const S* src0, const S* src1,
            int64_t repeat, const BinaryStrides& strides, const Reserved& reserved) {
  VectorIssue decoded(instruction, where, lanes_of_types<D, S>(), repeat);
  for (const int64_t value : {reserved.first, reserved.second, reserved.third})
    decoded.reserved("a reserved argument", value);
  issue_lanes<D, S, S>(decoded, function, operand("dst", dst, strides.dst_block, strides.dst_repeat),
                       {operand("src0", const_cast<S*>(src0), strides.src0_block, strides.src0_repeat),
                        operand("src1", const_cast<S*>(src1), strides.src1_block, strides.src1_repeat)},
                       kByteField);
}

template <typename Function, typename D, typename S>
void ternary(Instruction instruction, const void* where, Function function, D* dst, const S* src0, const S* src1,
             int64_t repeat, const BinaryStrides& strides, const Reserved& reserved) {
  VectorIssue decoded(instruction, where, lanes_of_types<D, S>(), repeat);
  for (const int64_t value : {reserved.first, reserved.second, reserved.third})
    decoded.reserved("a reserved argument", value);
  const Operand sum = operand("dst", dst, strides.dst_block, strides.dst_repeat);
  issue_lanes<D, S, S, D>(decoded, function, sum,
                          {operand("src0", const_cast<S*>(src0), strides.src0_block, strides.src0_repeat),
                           operand("src1", const_cast<S*>(src1), strides.src1_block, strides.src1_repeat), sum},
                          kByteField);
}

// The functions by the name of the instruction; D is the destination's type.
#define HAJAX_LANE(name, ...)     \
  template <typename D>           \
  __VA_ARGS__ function_##name() { \
    return {};                    \
  }
HAJAX_LANE(vadd, lane::add)
HAJAX_LANE(vsub, lane::sub)
HAJAX_LANE(vmul, lane::mul)
HAJAX_LANE(vdiv, lane::div)
HAJAX_LANE(vmax, lane::max)
HAJAX_LANE(vmin, lane::min)
HAJAX_LANE(vand, lane::bit_and)
HAJAX_LANE(vor, lane::bit_or)
HAJAX_LANE(vaddrelu, lane::add_relu)
HAJAX_LANE(vsubrelu, lane::sub_relu)
HAJAX_LANE(vmulconv_f162s8, lane::multiply_convert)
HAJAX_LANE(vmulconv_f162u8, lane::multiply_convert)
HAJAX_LANE(vaddreluconv_f162s8, lane::add_relu_convert<Half>)
HAJAX_LANE(vaddreluconv_f322f16, lane::add_relu_convert<float>)
HAJAX_LANE(vaddreluconv_s162s8, lane::add_relu_convert<int16_t>)
HAJAX_LANE(vsubreluconv_f162s8, lane::sub_relu_convert<Half>)
HAJAX_LANE(vsubreluconv_f322f16, lane::sub_relu_convert<float>)
HAJAX_LANE(vsubreluconv_s162s8, lane::sub_relu_convert<int16_t>)
HAJAX_LANE(vmla, lane::multiply_add<D>)
HAJAX_LANE(vmadd, lane::multiply_dst<D>)
HAJAX_LANE(vmaddrelu, lane::multiply_dst_relu<D>)
#undef HAJAX_LANE

template <typename D>
[[gnu::always_inline]] inline lane::add_scale_relu function_vadddeqrelu() {
  lane::add_scale_relu function;
  function.scale = half_to_float(static_cast<uint16_t>(deq_scale(HAJAX_WHERE())));
  function.counts = is_finite(function.scale);
  return function;
}

}  // namespace
}  // namespace hajax::emulator

namespace sim = hajax::emulator;

#define HAJAX_DEFINE(kind, function, instruction, D, S)                                                             \
  void function(D* dst, const S* src0, const S* src1, int64_t repeat, int64_t dst_block_stride,                     \
                int64_t src0_block_stride, int64_t src1_block_stride, int64_t dst_repeat_stride,                    \
                int64_t src0_repeat_stride, int64_t src1_repeat_stride, int64_t reserved0, int64_t reserved1,       \
                int64_t reserved2) {                                                                                \
    sim::kind(sim::Instruction::instruction, HAJAX_WHERE(), sim::function_##function<D>(), dst, src0, src1, repeat, \
              {dst_block_stride, src0_block_stride, src1_block_stride, dst_repeat_stride, src0_repeat_stride,       \
               src1_repeat_stride},                                                                                 \
              {reserved0, reserved1, reserved2});                                                                   \
  }
#define HAJAX_DEFINE_BINARY(function, instruction, D, S) HAJAX_DEFINE(binary, function, instruction, D, S)
#define HAJAX_DEFINE_TERNARY(function, instruction, D, S) HAJAX_DEFINE(ternary, function, instruction, D, S)
HAJAX_VECTOR_BINARY(HAJAX_DEFINE_BINARY)
HAJAX_VECTOR_TERNARY(HAJAX_DEFINE_TERNARY)
