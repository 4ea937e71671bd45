// Steps of the vector unit: each is one machine instruction, in the mask that is set already.
#ifndef HAJAX_NATIVE_ASCEND_VECTORS_H_
#define HAJAX_NATIVE_ASCEND_VECTORS_H_

#include "native/ascend/frame.h"

namespace hajax::ascend {

using AscendC::MASK_PLACEHOLDER;
using AscendC::RoundMode;

// The operands of a vector step.
struct Lanes {
  uint32_t dst;
  uint32_t src0;
  uint32_t src1;
  uint8_t repeats;
  AscendC::BinaryRepeatParams binary;
  AscendC::UnaryRepeatParams unary;

  __aicore__ inline Lanes(const Context& c, const Step& step)
      : dst(c.Ub(step.Dst())),
        src0(c.Ub(step.Src0())),
        src1(c.Ub(step.Src1())),
        repeats(static_cast<uint8_t>(step.Size())),
        binary(static_cast<uint8_t>(step.P(0)), static_cast<uint8_t>(step.P(1)), static_cast<uint8_t>(step.P(2)),
               static_cast<uint8_t>(step.P(3)), static_cast<uint8_t>(step.P(4)), static_cast<uint8_t>(step.P(5))),
        unary(static_cast<uint16_t>(step.P(0)), static_cast<uint16_t>(step.P(1)), static_cast<uint8_t>(step.P(3)),
              static_cast<uint8_t>(step.P(4))) {}
};

constexpr uint32_t kFirstVectorStep = 32;

// The vector step `opcode`. `scalar` is read only by those that take one.
template <uint32_t opcode>
__aicore__ inline void Compute(const Lanes& x, [[maybe_unused]] float scalar) {
  switch (opcode) {
#define HAJAX_BINARY_STEP(name, Call, T)                                                                              \
  case kOp_##name:                                                                                                    \
    AscendC::Call<T, false>(InUb<T>(x.dst), InUb<T>(x.src0), InUb<T>(x.src1), MASK_PLACEHOLDER, x.repeats, x.binary); \
    break;
    HAJAX_BINARY_STEP(add32, Add, float)
    HAJAX_BINARY_STEP(sub32, Sub, float)
    HAJAX_BINARY_STEP(mul32, Mul, float)
    HAJAX_BINARY_STEP(div32, Div, float)
    HAJAX_BINARY_STEP(max32, Max, float)
    HAJAX_BINARY_STEP(min32, Min, float)
    HAJAX_BINARY_STEP(add16, Add, half)
    HAJAX_BINARY_STEP(sub16, Sub, half)
    HAJAX_BINARY_STEP(mul16, Mul, half)
#undef HAJAX_BINARY_STEP
    case kOp_mla32:
      AscendC::MulAddDst<float, float, false>(InUb<float>(x.dst), InUb<float>(x.src0), InUb<float>(x.src1),
                                              MASK_PLACEHOLDER, x.repeats, x.binary);
      break;
#define HAJAX_UNARY_STEP(name, Call)                                                                            \
  case kOp_##name:                                                                                              \
    AscendC::Call<float, false>(InUb<float>(x.dst), InUb<float>(x.src0), MASK_PLACEHOLDER, x.repeats, x.unary); \
    break;
      HAJAX_UNARY_STEP(exp32, Exp)
      HAJAX_UNARY_STEP(ln32, Ln)
      HAJAX_UNARY_STEP(sqrt32, Sqrt)
      HAJAX_UNARY_STEP(rsqrt32, Rsqrt)
#undef HAJAX_UNARY_STEP
#define HAJAX_SCALAR_STEP(name, Call, T)                                                                          \
  case kOp_##name:                                                                                                \
    AscendC::Call<T, false>(InUb<T>(x.dst), InUb<T>(x.src0), static_cast<T>(scalar), MASK_PLACEHOLDER, x.repeats, \
                            x.unary);                                                                             \
    break;
      HAJAX_SCALAR_STEP(muls32, Muls, float)
      HAJAX_SCALAR_STEP(adds32, Adds, float)
      HAJAX_SCALAR_STEP(maxs32, Maxs, float)
      HAJAX_SCALAR_STEP(mins32, Mins, float)
      HAJAX_SCALAR_STEP(muls16, Muls, half)
#undef HAJAX_SCALAR_STEP
    case kOp_axpy32:
      AscendC::Axpy<float, float, false>(InUb<float>(x.dst), InUb<float>(x.src0), scalar, MASK_PLACEHOLDER, x.repeats,
                                         x.unary);
      break;
    case kOp_axpy16:
      AscendC::Axpy<float, half, false>(InUb<float>(x.dst), InUb<half>(x.src0), static_cast<half>(scalar),
                                        MASK_PLACEHOLDER, x.repeats, x.unary);
      break;
    case kOp_to16:
      AscendC::Cast<half, float, false>(InUb<half>(x.dst), InUb<float>(x.src0), RoundMode::CAST_NONE, MASK_PLACEHOLDER,
                                        x.repeats, x.unary);
      break;
    case kOp_to32:
      AscendC::Cast<float, half, false>(InUb<float>(x.dst), InUb<half>(x.src0), RoundMode::CAST_NONE, MASK_PLACEHOLDER,
                                        x.repeats, x.unary);
      break;
    case kOp_dup32:
      AscendC::Duplicate<float, false>(InUb<float>(x.dst), scalar, MASK_PLACEHOLDER, x.repeats, x.unary.dstBlkStride,
                                       x.unary.dstRepStride);
      break;
    case kOp_dup16:
      AscendC::Duplicate<half, false>(InUb<half>(x.dst), static_cast<half>(scalar), MASK_PLACEHOLDER, x.repeats,
                                      x.unary.dstBlkStride, x.unary.dstRepStride);
      break;
    case kOp_cadd32:  // a sum is one element, and so is its stride
      AscendC::WholeReduceSum<float, false>(InUb<float>(x.dst), InUb<float>(x.src0),
                                            static_cast<int32_t>(MASK_PLACEHOLDER), x.repeats, 1, x.unary.srcBlkStride,
                                            x.unary.srcRepStride);
      break;
    default:
      break;
  }
}

__aicore__ constexpr bool TakesScalar(uint32_t opcode) {
  switch (opcode) {
    case kOp_muls32:
    case kOp_adds32:
    case kOp_maxs32:
    case kOp_mins32:
    case kOp_muls16:
    case kOp_axpy32:
    case kOp_axpy16:
    case kOp_dup32:
    case kOp_dup16:
      return true;
    default:
      return false;
  }
}

}  // namespace hajax::ascend

#endif  // HAJAX_NATIVE_ASCEND_VECTORS_H_
