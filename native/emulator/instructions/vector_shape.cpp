#include "native/emulator/instructions/vector_shape.h"

namespace hajax::emulator {
namespace {

constexpr uint64_t kAllOnes = ~uint64_t{0};
constexpr int kWordLanes = 64;
constexpr uint64_t kMostCount = 0xFFFFFFFF;  // the counter is the mask's low 32 bits

int count_bits(uint64_t word) { return __builtin_popcountll(word); }

// More than one block of the operand has an active lane.
bool many_blocks(const Shape& shape, int lanes_per_block) {
  for (const Lanes& lanes : {shape.lanes, shape.last_lanes}) {
    int blocks = 0;
    for (int lane = 0; lane < shape.lanes_per_repeat; lane += lanes_per_block) {
      blocks += lane_bits(lanes, lane, lanes_per_block) != 0;
    }
    if (blocks > 1) return true;
  }
  return false;
}

}  // namespace

Lanes first_lanes(int64_t count) {
  const auto word = [](int64_t bits) {
    return bits >= kWordLanes ? kAllOnes : bits <= 0 ? uint64_t{0} : (uint64_t{1} << bits) - 1;
  };
  return {word(count), word(count - kWordLanes)};
}

int count_lanes(const Lanes& lanes) { return count_bits(lanes.low) + count_bits(lanes.high); }

Issue named(Instruction instruction, const void* where) {
  Issue issue{};
  issue.instruction = instruction;
  issue.pipe = Pipe::V;
  issue.where = where;
  issue.step = core().step_number;
  return issue;
}

VectorIssue::VectorIssue(Instruction instruction, const void* where, int lanes_per_repeat, int64_t repeat, bool masked)
    : issue_(named(instruction, where)) {
  issue_.check_overlap = true;
  shape_.lanes_per_repeat = lanes_per_repeat;
  if (core().registers.counter_mode) {
    decode_counter();
  } else {
    decode_normal(repeat, masked);
  }
  if (!masked && !shape_.last_full)
    fail(Check::limit, "the count of elements is " + std::to_string(core().registers.mask_low) +
                           ": expected a multiple of " + std::to_string(lanes_per_repeat) +
                           " for an instruction that ignores the mask");
  if (shape_.repeats == 0) return;
  issue_.units = static_cast<uint32_t>(shape_.repeats);
  issue_.lanes = shape_.lanes;
  issue_.last_lanes = shape_.last_lanes;
  issue_.has_last_lanes = shape_.last_full != shape_.full;
  issue_.masked = !shape_.last_full || !shape_.full;
  issue_.lanes_used = static_cast<uint64_t>(count_lanes(shape_.lanes)) * static_cast<uint64_t>(shape_.repeats - 1) +
                      static_cast<uint64_t>(count_lanes(shape_.last_lanes));
}

VectorIssue::VectorIssue(Instruction instruction, const void* where, int64_t repeat)
    : issue_(named(instruction, where)) {
  issue_.check_overlap = true;
  limit("repeat", repeat, kMostRepeats);
  shape_.repeats = static_cast<int32_t>(repeat);
  issue_.units = static_cast<uint32_t>(repeat);
}

void VectorIssue::decode_normal(int64_t repeat, bool masked) {
  limit("repeat", repeat, kMostRepeats);
  shape_.repeats = static_cast<int32_t>(repeat);
  if (repeat == 0) return;
  if (!masked) {
    shape_.lanes = shape_.last_lanes = first_lanes(shape_.lanes_per_repeat);
    return;
  }
  Lanes lanes{core().registers.mask_low, core().registers.mask_high};
  if (shape_.lanes_per_repeat <= kWordLanes) {
    if (lanes.high != 0 && !(lanes.high == kAllOnes && lanes.low == kAllOnes))
      fail(Check::limit, "the mask's high word is not 0: expected lanes 0 to 63 only for 32-bit elements");
    lanes.high = 0;
  }
  if (lanes.low == 0 && lanes.high == 0)
    fail(Check::limit,
         "the mask is 0: expected at least one lane, as what the chip does without is not defined, "
         "and no mask is set before the kernel sets one");
  shape_.lanes = shape_.last_lanes = lanes;
  shape_.full = shape_.last_full = count_lanes(lanes) == shape_.lanes_per_repeat;
}

void VectorIssue::decode_counter() {
  const uint64_t count = core().registers.mask_low;
  if (count == 0 || count > kMostCount)
    fail(Check::limit, "the count of elements (counter mode) is " + std::to_string(count) + ": expected 1 to " +
                           std::to_string(kMostCount));
  const int64_t lanes = shape_.lanes_per_repeat;
  const auto elements = static_cast<int64_t>(count);
  shape_.repeats = static_cast<int32_t>((elements + lanes - 1) / lanes);
  const int64_t rest = elements - (shape_.repeats - 1) * lanes;
  shape_.last_lanes = first_lanes(rest);
  shape_.last_full = rest == lanes;
  shape_.lanes = shape_.repeats == 1 ? shape_.last_lanes : first_lanes(lanes);
  shape_.full = shape_.repeats > 1 || shape_.last_full;
}

void VectorIssue::limit(const char* argument, int64_t value, int64_t most) {
  if (value >= 0 && value <= most) return;
  fail(Check::limit,
       std::string(argument) + " is " + std::to_string(value) + ": expected 0 to " + std::to_string(most));
}

void VectorIssue::limit(const char* operand, const char* field, int64_t value, int64_t most) {
  if (value >= 0 && value <= most) return;
  limit((std::string(operand) + " " + field).c_str(), value, most);
}

void VectorIssue::read(const Operand& what, int64_t most_block_stride, int64_t most_repeat_stride) {
  limit(what.name, "block stride", what.block_stride, most_block_stride);
  limit(what.name, "repeat stride", what.repeat_stride, most_repeat_stride);
  add_operand(what, false);
}

void VectorIssue::write(const Operand& what, int64_t most_block_stride, int64_t most_repeat_stride) {
  limit(what.name, "block stride", what.block_stride, most_block_stride);
  limit(what.name, "repeat stride", what.repeat_stride, most_repeat_stride);
  if (what.block_stride == 0 && shape_.repeats != 0 && many_blocks(shape_, kBlockBytes / what.element_bytes))
    fail(Check::limit,
         std::string(what.name) + " block stride is 0: expected at least 1, as several blocks are written");
  add_operand(what, true);
}

void VectorIssue::add_operand(const Operand& what, bool write) {
  Access access;
  access.operand = what.name;
  access.write = write;
  access.lane_bytes = static_cast<uint8_t>(what.element_bytes);
  access.address = what.address;
  access.bytes = kBlockBytes;
  access.blocks = shape_.lanes_per_repeat * what.element_bytes / kBlockBytes;
  access.block_stride = what.block_stride * kBlockBytes;
  access.repeats = shape_.repeats;
  access.repeat_stride = what.repeat_stride * kBlockBytes;
  add(access);
}

void VectorIssue::add(const Access& access) {
  if (shape_.repeats != 0) issue_.add(access);
}

}  // namespace hajax::emulator
