// Comparisons and selection. Documents: "Compare", "Compares", "Compare (result in a register)", "Select",
// "SetCmpMask", "GetCmpMask" of the public API reference.
//
// A NaN is unequal to everything and neither smaller nor larger. vcmp clears the register's bits of lanes that are off
// and, with 32-bit elements, its upper half. vcmpv and vcmpvs look at neither the mask's lanes nor dst's strides on
// 310P (on 310B, where the mask is said to count, it must be full); repeat r's bits follow those of repeat r - 1.
#include "native/emulator/core/services.h"
#include "native/emulator/instructions/vector.h"
#include "native/emulator/instructions/vector_lanes.h"

namespace hajax::emulator {
namespace {

constexpr int64_t kArch310B = 3002;

template <typename T>
constexpr int lanes_of() {
  return kRepeatBytes / static_cast<int>(sizeof(T));
}

struct CompareStrides {
  int64_t dst_block, src0_block, src1_block, dst_repeat, src0_repeat, src1_repeat;
};

#define HAJAX_COMPARISON(suffix, operation) \
  struct compare_##suffix {                 \
    template <typename V>                   \
    bool operator()(V a, V b) const {       \
      return a operation b;                 \
    }                                       \
  };
HAJAX_VECTOR_COMPARISONS(HAJAX_COMPARISON)
#undef HAJAX_COMPARISON

void limit_destination(VectorIssue& decoded, int64_t block_stride, int64_t repeat_stride, int64_t most_block_stride) {
  decoded.limit("dst block stride", block_stride, most_block_stride);
  decoded.limit("dst repeat stride", repeat_stride, kByteField);
}

// Bits of one repeat, lane 0 lowest.
template <typename Compare>
Lanes bits_of_lanes(const float* a, const float* b, int lanes, Compare compare) {
  uint64_t word[2] = {};
  for (int i = 0; i < lanes; ++i) word[i / 64] |= uint64_t{compare(a[i], b[i])} << (i % 64);
  return {word[0], word[1]};
}

template <typename Compare, typename T>
void compare_to_register(const void* where, Compare compare, const T* src0, const T* src1, int64_t repeat,
                         const CompareStrides& strides) {
  VectorIssue decoded(Instruction::vcmp, where, lanes_of<T>(), repeat);
  limit_destination(decoded, strides.dst_block, strides.dst_repeat, kByteField);
  if (decoded.shape().repeats != 1)
    decoded.fail(Check::limit, "repeat is " + std::to_string(decoded.shape().repeats) +
                                   ": expected 1, as the register holds one repeat's bits");
  const Operand a = operand("src0", const_cast<T*>(src0), strides.src0_block, strides.src0_repeat);
  const Operand b = operand("src1", const_cast<T*>(src1), strides.src1_block, strides.src1_repeat);
  decoded.read(a, kByteField, kByteField);
  decoded.read(b, kByteField, kByteField);
  core().issue(decoded.issue(), [=, shape = decoded.shape()] {
    LaneBuffer<T, lanes_of<T>()> left, right;
    left.read(a, shape, 0);
    right.read(b, shape, 0);
    const Lanes bits = bits_of_lanes(left.get(), right.get(), lanes_of<T>(), compare);
    core().registers.compare_mask[0] = bits.low & shape.lanes.low;
    core().registers.compare_mask[1] = bits.high & shape.lanes.high;
  });
}

template <typename T>
VectorIssue decode_to_memory(Instruction instruction, const void* where, int64_t repeat) {
  if (core().target().npu_arch == kArch310B) {
    VectorIssue decoded(instruction, where, lanes_of<T>(), repeat);
    if (!decoded.shape().full || !decoded.shape().last_full)
      decoded.fail(Check::unsupported, "lanes are off: what 310B writes for them is not documented");
    return decoded;
  }
  return VectorIssue(instruction, where, lanes_of<T>(), repeat, false);
}

template <typename T>
void add_bits(VectorIssue& decoded, uint8_t* dst) {
  Access access;
  access.operand = "dst";
  access.write = true;
  access.address = dst;
  access.bytes = lanes_of<T>() / 8;
  access.repeats = decoded.shape().repeats;
  access.repeat_stride = access.bytes;
  decoded.add(access);
}

template <typename T>
void put_bits(uint8_t* dst, int32_t repeat, const Lanes& bits) {
  constexpr int kBytes = lanes_of<T>() / 8;
  memcpy(dst + repeat * kBytes, &bits.low, kBytes < 8 ? kBytes : 8);
  if constexpr (kBytes > 8) memcpy(dst + repeat * kBytes + 8, &bits.high, kBytes - 8);
}

template <typename Compare, typename T>
void compare_to_memory(const void* where, Compare compare, uint8_t* dst, const T* src0, const T* src1, int64_t repeat,
                       const CompareStrides& strides) {
  VectorIssue decoded = decode_to_memory<T>(Instruction::vcmpv, where, repeat);
  limit_destination(decoded, strides.dst_block, strides.dst_repeat, kByteField);
  const Operand a = operand("src0", const_cast<T*>(src0), strides.src0_block, strides.src0_repeat);
  const Operand b = operand("src1", const_cast<T*>(src1), strides.src1_block, strides.src1_repeat);
  decoded.read(a, kByteField, kByteField);
  decoded.read(b, kByteField, kByteField);
  add_bits<T>(decoded, dst);
  core().issue(decoded.issue(), [=, shape = decoded.shape()] {
    LaneBuffer<T, lanes_of<T>()> left, right;
    for (int32_t r = 0; r < shape.repeats; ++r) {
      left.read(a, shape, r);
      right.read(b, shape, r);
      put_bits<T>(dst, r, bits_of_lanes(left.get(), right.get(), lanes_of<T>(), compare));
    }
  });
}

template <typename Compare, typename T>
void compare_with_scalar(const void* where, Compare compare, uint8_t* dst, const T* src, T scalar, int64_t repeat,
                         const CompareStrides& strides) {
  VectorIssue decoded = decode_to_memory<T>(Instruction::vcmpvs, where, repeat);
  limit_destination(decoded, strides.dst_block, strides.dst_repeat, kWordField);
  const Operand a = operand("src", const_cast<T*>(src), strides.src0_block, strides.src0_repeat);
  decoded.read(a, kWordField, kByteField);
  add_bits<T>(decoded, dst);
  core().issue(decoded.issue(), [=, shape = decoded.shape()] {
    LaneBuffer<T, lanes_of<T>()> left;
    float right[lanes_of<T>()];
    std::fill_n(right, lanes_of<T>(), static_cast<float>(scalar));
    for (int32_t r = 0; r < shape.repeats; ++r) {
      left.read(a, shape, r);
      put_bits<T>(dst, r, bits_of_lanes(left.get(), right, lanes_of<T>(), compare));
    }
  });
}

}  // namespace
}  // namespace hajax::emulator

namespace sim = hajax::emulator;

#define HAJAX_DEFINE(suffix, T)                                                                                 \
  void vcmp_##suffix(const T* src0, const T* src1, int64_t repeat, int64_t dst_block_stride,                    \
                     int64_t src0_block_stride, int64_t src1_block_stride, int64_t dst_repeat_stride,           \
                     int64_t src0_repeat_stride, int64_t src1_repeat_stride) {                                  \
    sim::compare_to_register(HAJAX_WHERE(), sim::compare_##suffix(), src0, src1, repeat,                        \
                             {dst_block_stride, src0_block_stride, src1_block_stride, dst_repeat_stride,        \
                              src0_repeat_stride, src1_repeat_stride});                                         \
  }                                                                                                             \
  void vcmpv_##suffix(uint8_t* dst, const T* src0, const T* src1, int64_t repeat, int64_t dst_block_stride,     \
                      int64_t src0_block_stride, int64_t src1_block_stride, int64_t dst_repeat_stride,          \
                      int64_t src0_repeat_stride, int64_t src1_repeat_stride) {                                 \
    sim::compare_to_memory(HAJAX_WHERE(), sim::compare_##suffix(), dst, src0, src1, repeat,                     \
                           {dst_block_stride, src0_block_stride, src1_block_stride, dst_repeat_stride,          \
                            src0_repeat_stride, src1_repeat_stride});                                           \
  }                                                                                                             \
  void vcmpvs_##suffix(uint8_t* dst, const T* src, T scalar, int64_t repeat, int64_t dst_block_stride,          \
                       int64_t src_block_stride, int64_t dst_repeat_stride, int64_t src_repeat_stride) {        \
    sim::compare_with_scalar(HAJAX_WHERE(), sim::compare_##suffix(), dst, src, scalar, repeat,                  \
                             {dst_block_stride, src_block_stride, 0, dst_repeat_stride, src_repeat_stride, 0}); \
  }
#define HAJAX_DEFINE_ALL(suffix, operation) HAJAX_DEFINE(suffix, half) HAJAX_DEFINE(suffix, float)
HAJAX_VECTOR_COMPARISONS(HAJAX_DEFINE_ALL)
