// Fills. Documents: "Duplicate", "Brcb", "CreateVecIndex" of the public API reference.
//
// vbrcb and vci do not exist on 310P, whose API gets them from other instructions. vci stands for what 310B does in
// vector registers: element i of the whole instruction is first + i, in the element's type.
#include "native/emulator/core/services.h"
#include "native/emulator/instructions/vector.h"
#include "native/emulator/instructions/vector_lanes.h"

namespace hajax::emulator {
namespace {

constexpr int64_t kArch310P = 2002;
constexpr int kBlocks = kRepeatBytes / kBlockBytes;

template <typename T>
struct constant : LaneFunction {
  T scalar;
  T value() const { return scalar; }
};

template <typename T>
void fill(const void* where, T* dst, T scalar, int64_t repeat, const int64_t (&strides)[4]) {
  VectorIssue decoded(Instruction::vector_dup, where, lanes_of_types<T>(), repeat);
  decoded.limit("src block stride", strides[1], kWordField);
  decoded.limit("src repeat stride", strides[3], kByteField);
  constant<T> function;
  function.scalar = scalar;
  issue_lanes<T>(decoded, function, operand("dst", dst, strides[0], strides[2]), {}, kWordField);
}

void refuse_310p(VectorIssue& decoded, const char* instead) {
  if (core().target().npu_arch != kArch310P) return;
  decoded.fail(Check::unsupported, std::string("310P has no such instruction: ") + instead);
}

template <typename T>
void broadcast(const void* where, T* dst, const T* src, int64_t repeat, int64_t block_stride, int64_t repeat_stride) {
  VectorIssue decoded(Instruction::vbrcb, where, repeat);
  refuse_310p(decoded, "Brcb, which the API builds of others");
  decoded.limit("dst block stride", block_stride, kWordField);
  decoded.limit("dst repeat stride", repeat_stride, kWordField);
  if (block_stride == 0) decoded.fail(Check::limit, "dst block stride is 0: expected at least 1");
  Access from;
  from.operand = "src";
  from.address = src;
  from.bytes = kBlocks * static_cast<int64_t>(sizeof(T));
  from.repeats = decoded.shape().repeats;
  from.repeat_stride = from.bytes;
  decoded.add(from);
  Access to;
  to.operand = "dst";
  to.write = true;
  to.address = dst;
  to.blocks = kBlocks;
  to.block_stride = block_stride * kBlockBytes;
  to.repeats = decoded.shape().repeats;
  to.repeat_stride = repeat_stride * kBlockBytes;
  decoded.add(to);
  decoded.issue().lanes_used = static_cast<uint64_t>(repeat) * (kRepeatBytes / sizeof(T));
  core().issue(decoded.issue(), [=] {
    constexpr int kPerBlock = kBlockBytes / static_cast<int>(sizeof(T));
    for (int64_t r = 0; r < repeat; ++r) {
      T values[kBlocks];
      memcpy(values, src + r * kBlocks, sizeof values);
      for (int block = 0; block < kBlocks; ++block) {
        std::fill_n(dst + (r * repeat_stride + block * block_stride) * kPerBlock, kPerBlock, values[block]);
      }
    }
  });
}

template <typename T>
void count_up(const void* where, T* dst, T first, int64_t repeat, int64_t block_stride, int64_t repeat_stride) {
  constexpr int kLanes = lanes_of_types<T>();
  VectorIssue decoded(Instruction::vci, where, kLanes, repeat);
  refuse_310p(decoded, "CreateVecIndex, which the API builds of others");
  const Operand to = operand("dst", dst, block_stride, repeat_stride);
  decoded.write(to, kWordField, kByteField);
  core().issue(decoded.issue(), [=, shape = decoded.shape()] {
    T values[kLanes];
    for (int32_t r = 0; r < shape.repeats; ++r) {
      for (int i = 0; i < kLanes; ++i) {
        const int64_t index = int64_t{r} * kLanes + i;
        if constexpr (std::is_integral_v<T>) {
          values[i] = narrow<T>(int64_t{first} + index);
        } else {
          values[i] = narrow<T>(static_cast<double>(static_cast<float>(first)) + static_cast<double>(index));
        }
      }
      store(to, shape, r, values);
    }
  });
}

}  // namespace
}  // namespace hajax::emulator

namespace sim = hajax::emulator;

#define HAJAX_DEFINE_DUP(function, instruction, T)                                                    \
  void function(T* dst, T scalar, int64_t repeat, int64_t dst_block_stride, int64_t src_block_stride, \
                int64_t dst_repeat_stride, int64_t src_repeat_stride) {                               \
    sim::fill(HAJAX_WHERE(), dst, scalar, repeat,                                                     \
              {dst_block_stride, src_block_stride, dst_repeat_stride, src_repeat_stride});            \
  }
HAJAX_VECTOR_DUP(HAJAX_DEFINE_DUP)

#define HAJAX_DEFINE_BROADCAST(T)                                                                         \
  void vbrcb(T* dst, const T* src, int64_t dst_block_stride, int64_t dst_repeat_stride, int64_t repeat) { \
    sim::broadcast(HAJAX_WHERE(), dst, src, repeat, dst_block_stride, dst_repeat_stride);                 \
  }
HAJAX_DEFINE_BROADCAST(uint16_t)
HAJAX_DEFINE_BROADCAST(uint32_t)

#define HAJAX_DEFINE_COUNT(T)                                                                      \
  void vci(T* dst, T first, int64_t repeat, int64_t dst_block_stride, int64_t dst_repeat_stride) { \
    sim::count_up(HAJAX_WHERE(), dst, first, repeat, dst_block_stride, dst_repeat_stride);         \
  }
HAJAX_DEFINE_COUNT(half)
HAJAX_DEFINE_COUNT(float)
HAJAX_DEFINE_COUNT(int16_t)
HAJAX_DEFINE_COUNT(int32_t)
