// Lanes, repeats and operands of a vector instruction, as its arguments and the mask registers give them, and the Issue
// that declares them.
//
// Rules (from the public documents where they say so, otherwise chosen here):
// - Normal mode: `repeat` is 0 to 255; 0 does nothing. Counter mode: the mask's low word is the number of elements,
// `repeat`
//   is ignored, the last repeat has the lanes that are left.
// - A mask without lanes, or a count of 0, is an error: the documents leave open what a 310P does then.
// - For 32-bit lanes the mask's high word must be 0; all ones in both words (what ResetMask leaves) is every lane.
// - A destination's block stride of 0 is undefined on the chip, hence an error when more than one block is written. A
//   source's reads the first block again for each block.
#ifndef HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_VECTOR_SHAPE_H_
#define HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_VECTOR_SHAPE_H_

#include <stdint.h>

#include <string>

#include "native/emulator/core/core.h"

namespace hajax::emulator {

inline constexpr int kBlockBytes = 32;
inline constexpr int kRepeatBytes = 256;
inline constexpr int64_t kMostRepeats = 255;
inline constexpr int64_t kByteField = 255;
inline constexpr int64_t kWordField = 65535;

// One operand: in each repeat a row of 32-byte blocks. Strides count blocks.
struct Operand {
  const char* name = "";
  uint8_t* address = nullptr;
  int element_bytes = 0;
  int64_t block_stride = 1;
  int64_t repeat_stride = 0;
};

template <typename T>
Operand operand(const char* name, T* address, int64_t block_stride, int64_t repeat_stride) {
  return {name, reinterpret_cast<uint8_t*>(address), static_cast<int>(sizeof(T)), block_stride, repeat_stride};
}

struct Shape {
  int lanes_per_repeat = 0;
  int32_t repeats = 0;
  Lanes lanes;  // of every repeat but the last
  Lanes last_lanes;
  bool full = true;  // no lane of `lanes` is off
  bool last_full = true;

  bool last(int32_t repeat) const { return repeat == repeats - 1; }
  const Lanes& lanes_of(int32_t repeat) const { return last(repeat) ? last_lanes : lanes; }
  bool full_of(int32_t repeat) const { return last(repeat) ? last_full : full; }
};

Lanes first_lanes(int64_t count);
int count_lanes(const Lanes& lanes);
// The lanes from `from`, `count` of them (at most 32, not across the middle of the mask), as bits.
inline uint64_t lane_bits(const Lanes& lanes, int from, int count) {
  const uint64_t word = from < 64 ? lanes.low >> from : lanes.high >> (from - 64);
  return word & ((uint64_t{1} << count) - 1);
}

// Builds the Issue of one vector instruction; every limit that is passed ends the kernel.
class VectorIssue {
 public:
  // masked false: the instruction does not look at the mask's lanes (comparisons into memory).
  VectorIssue(Instruction instruction, const void* where, int lanes_per_repeat, int64_t repeat, bool masked = true);

  // An instruction without lanes, which neither the mask nor its mode touches.
  VectorIssue(Instruction instruction, const void* where, int64_t repeat);

  // Checks `value` against the width of the argument's field.
  void limit(const char* argument, int64_t value, int64_t most);
  void limit(const char* operand, const char* field, int64_t value, int64_t most);
  // The chip's headers pass flags that no chip here gives a meaning; anything but 0 is an error.
  void reserved(const char* argument, int64_t value) { limit(argument, value, 0); }

  // Masked operands of whole blocks. The two most are those of the strides.
  void read(const Operand& what, int64_t most_block_stride, int64_t most_repeat_stride);
  void write(const Operand& what, int64_t most_block_stride, int64_t most_repeat_stride);
  // Any other access. Left out when nothing repeats.
  void add(const Access& access);

  [[noreturn]] void fail(Check check, const std::string& text) { core().fail(check, text, issue_); }

  const Shape& shape() const { return shape_; }
  Issue& issue() { return issue_; }

 private:
  void decode_normal(int64_t repeat, bool masked);
  void decode_counter();
  void add_operand(const Operand& what, bool write);

  Issue issue_{};
  Shape shape_;
};

// For messages from a computation, which runs after its Issue is gone.
Issue named(Instruction instruction, const void* where);

// The scale that SetDeqScale has put into its register; none is an error.
inline uint64_t deq_scale(const void* where) {
  const uint64_t scale = core().registers.deq_scale;
  if (scale == 0)
    core().fail(Check::limit, "the scale of the conversion: expected SetDeqScale to come first, got 0", where);
  return scale;
}

}  // namespace hajax::emulator

#endif  // HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_VECTOR_SHAPE_H_
