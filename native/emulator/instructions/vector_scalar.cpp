// Instructions of a source and a scalar. Documents: "Adds", "Muls", "Maxs", "Mins", "LeakyRelu", "Axpy" of the public
// API reference.
#include "native/emulator/core/services.h"
#include "native/emulator/instructions/vector.h"
#include "native/emulator/instructions/vector_lanes.h"

namespace hajax::emulator {
namespace lane {
namespace {

// A binary function whose second operand is the same for every lane.
template <typename Function, typename V>
struct with_scalar : LaneFunction {
  explicit with_scalar(V operand) : scalar(operand) { counts = is_finite(operand); }
  V value(V a) const { return Function().value(a, scalar); }
  V scalar;
};

// Positive values, +0 among them, stay; all others are multiplied.
template <typename V>
struct leaky_relu : LaneFunction {
  explicit leaky_relu(V operand) : scalar(operand) { counts = is_finite(operand); }
  V value(V a) const { return bits_of(a) >> 31 ? a * scalar : a; }
  V scalar;
};

// scalar * src + dst, rounded after the product as well.
template <typename T>
struct scaled_add : LaneFunction {
  using Step = T;
  explicit scaled_add(float operand) : scalar(operand) { counts = is_finite(operand); }
  float first(float a, float) const { return scalar * a; }
  float second(float product, float, float sum) const { return product + sum; }
  float scalar;
};

}  // namespace
}  // namespace lane

namespace {

struct UnaryStrides {
  int64_t dst_block, src_block, dst_repeat, src_repeat;
};

template <typename Function, typename D, typename S>
void scalar_operand(Instruction instruction, const void* where, const Function& function, D* dst, const S* src,
                    int64_t repeat, const UnaryStrides& strides, int64_t reserved0, int64_t reserved1) {
  VectorIssue decoded(instruction, where, lanes_of_types<D, S>(), repeat);
  for (const int64_t value : {reserved0, reserved1}) decoded.reserved("a reserved argument", value);
  const Operand to = operand("dst", dst, strides.dst_block, strides.dst_repeat);
  const Operand from = operand("src", const_cast<S*>(src), strides.src_block, strides.src_repeat);
  if constexpr (std::is_base_of_v<lane::scaled_add<D>, Function>) {
    issue_lanes<D, S, D>(decoded, function, to, {from, to}, kWordField);
  } else {
    issue_lanes<D, S>(decoded, function, to, {from}, kWordField);
  }
}

template <typename T>
Wide<T> widened(T scalar) {
  return scalar;
}

// The functions by the name of the instruction; D is the destination's type.
template <typename D>
auto function_vadds(D scalar) {
  return lane::with_scalar<lane::add, Wide<D>>(widened(scalar));
}
template <typename D>
auto function_vmuls(D scalar) {
  return lane::with_scalar<lane::mul, Wide<D>>(widened(scalar));
}
template <typename D>
auto function_vmaxs(D scalar) {
  return lane::with_scalar<lane::max, Wide<D>>(widened(scalar));
}
template <typename D>
auto function_vmins(D scalar) {
  return lane::with_scalar<lane::min, Wide<D>>(widened(scalar));
}
template <typename D>
auto function_vlrelu(D scalar) {
  return lane::leaky_relu<Wide<D>>(widened(scalar));
}
template <typename D>
auto function_vaxpy(float scalar) {
  return lane::scaled_add<D>(scalar);
}

}  // namespace
}  // namespace hajax::emulator

namespace sim = hajax::emulator;

#define HAJAX_DEFINE(function, instruction, D, S)                                                                      \
  void function(D* dst, const S* src, S scalar, int64_t repeat, int64_t dst_block_stride, int64_t src_block_stride,    \
                int64_t dst_repeat_stride, int64_t src_repeat_stride, int64_t reserved0, int64_t reserved1) {          \
    sim::scalar_operand(sim::Instruction::instruction, HAJAX_WHERE(), sim::function_##function<D>(scalar), dst, src,   \
                        repeat, {dst_block_stride, src_block_stride, dst_repeat_stride, src_repeat_stride}, reserved0, \
                        reserved1);                                                                                    \
  }
HAJAX_VECTOR_SCALAR(HAJAX_DEFINE)
HAJAX_VECTOR_SCALAR_TERNARY(HAJAX_DEFINE)
