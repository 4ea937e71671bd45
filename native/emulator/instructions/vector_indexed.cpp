// Moves of elements whose places are data. Documents: "Gather", "Scatter", "GatherMask" of the public API reference.
//
// Where elements lie is known once the offsets (or bits) are, and the checks want it when the instruction is issued. So
// these look at the offsets then, and again when the instruction runs: should an instruction before it in V's queue
// have changed them in between, which takes a WaitFlag ahead of its SetFlag, that is an error. What is touched is
// declared as at most kMostRuns stretches from the first to the last element with the widest gaps left out.
#include <algorithm>
#include <string>
#include <vector>

#include "native/emulator/checks/bounds.h"
#include "native/emulator/core/services.h"
#include "native/emulator/instructions/vector.h"
#include "native/emulator/instructions/vector_lanes.h"

namespace hajax::emulator {
namespace {

constexpr int64_t kArch310P = 2002;
constexpr size_t kMostRuns = 4;
constexpr int kOffsetsPerBlock = 8;

template <typename T>
constexpr int lanes_of() {
  return kRepeatBytes / static_cast<int>(sizeof(T));
}

// Fields of the config word.
struct Config {
  uint32_t base;  // UB offset that offsets count from
  int64_t dst_stride, src_stride, repeat;
};

// Host addresses differ from the chip's: the low 32 bits of one stand for a UB address.
Config unpack(uint64_t config) {
  const auto start = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(core().base(Space::UB)));
  return {static_cast<uint32_t>(config) - start, static_cast<int64_t>(config >> 32 & 0xff),
          static_cast<int64_t>(config >> 40 & 0xff), static_cast<int64_t>(config >> 56)};
}

Operand offsets_operand(const uint32_t* offsets, int lanes) {
  return operand("offsets", const_cast<uint32_t*>(offsets), 1, lanes / kOffsetsPerBlock);
}

// UB offsets of the elements of all active lanes, in order.
std::vector<uint32_t> element_places(const Operand& offsets, const Shape& shape, uint32_t base) {
  std::vector<uint32_t> found;
  std::vector<uint32_t> row(static_cast<size_t>(shape.lanes_per_repeat));
  for (int32_t r = 0; r < shape.repeats; ++r) {
    load(offsets, shape, r, row.data());
    for (int i = 0; i < shape.lanes_per_repeat; ++i) {
      if (shape.lanes_of(r)[i]) found.push_back(base + row[static_cast<size_t>(i)]);
    }
  }
  return found;
}

bool readable(const Issue& issue) {  // the offsets' own bounds are checked later
  const Access& offsets = issue.access[0];
  const int64_t start = core().offset(Space::UB, offsets.address);
  const int64_t end = start + (offsets.repeats - 1) * offsets.repeat_stride + offsets.blocks * kBlockBytes;
  return start >= 0 && end <= core().target().ub_bytes;
}

// Stretches of UB that hold all of `places`, in the order of their addresses.
void declare_places(VectorIssue& decoded, const char* name, std::vector<uint32_t> places, int size, bool write) {
  if (places.empty()) return;
  std::sort(places.begin(), places.end());
  std::vector<size_t> starts;  // indices of places with a gap before them
  for (size_t i = 1; i < places.size(); ++i) {
    if (places[i] > uint64_t{places[i - 1]} + static_cast<uint64_t>(size)) starts.push_back(i);
  }
  const auto gap = [&](size_t i) { return places[i] - places[i - 1]; };
  if (starts.size() > kMostRuns - 1) {
    std::nth_element(starts.begin(), starts.begin() + kMostRuns - 2, starts.end(),
                     [&](size_t a, size_t b) { return gap(a) > gap(b); });
    starts.resize(kMostRuns - 1);
    std::sort(starts.begin(), starts.end());
  }
  starts.push_back(places.size());
  size_t first = 0;
  for (const size_t end : starts) {
    Access access;
    access.operand = name;
    access.write = write;
    access.address = core().base(Space::UB) + places[first];
    access.bytes = int64_t{places[end - 1]} - places[first] + size;
    access.alignment = size;
    decoded.add(access);
    first = end;
  }
}

uint64_t digest(const std::vector<uint32_t>& places) {
  uint64_t sum = places.size();
  for (const uint32_t place : places) sum = (sum ^ place) * 0x100000001b3;
  return sum;
}

bool fits(uint32_t place, int size) {
  return place % static_cast<uint32_t>(size) == 0 && int64_t{place} + size <= core().size(Space::UB);
}

// Ends the kernel at the first place that is misaligned, outside of UB or, for a scatter, there twice.
void check_places(const std::vector<uint32_t>& places, int size, bool unique, const Issue& what) {
  for (const uint32_t place : places) {
    if (place % static_cast<uint32_t>(size) != 0)
      core().fail(Check::misaligned,
                  "an offset leads to UB offset " + std::to_string(place) + ": expected a multiple of " +
                      std::to_string(size) + " bytes, the element's size",
                  what);
    if (!fits(place, size))
      core().fail(Check::out_of_bounds,
                  "an offset leads to UB offset " + std::to_string(place) + ": expected less than " +
                      std::to_string(core().size(Space::UB)) + " bytes",
                  what);
  }
  if (!unique) return;
  std::vector<uint32_t> sorted = places;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end())
    core().fail(Check::limit, "two offsets lead to UB offset " + std::to_string(*twice) + ": expected each once", what);
}

void check_unchanged(bool same, const char* what_changed, const Issue& what) {
  if (same) return;
  core().fail(Check::unsupported,
              std::string(what_changed) +
                  " changed while the instruction waited in the queue of V: put it behind a flag "
                  "that was set before",
              what);
}

// No indexed element may lie in a block of the other operand that is used.
void check_places_apart(std::vector<uint32_t> places, const Operand& row, const Shape& shape, const Issue& what) {
  std::sort(places.begin(), places.end());
  const int per_block = kBlockBytes / row.element_bytes;
  for (int32_t r = 0; r < shape.repeats; ++r) {
    for (int lane = 0; lane < shape.lanes_per_repeat; lane += per_block) {
      if (lane_bits(shape.lanes_of(r), lane, per_block) == 0) continue;
      const int64_t block =
          core().offset(Space::UB, row.address) + r * row.repeat_stride * kBlockBytes + lane * row.element_bytes;
      const auto first = std::lower_bound(places.begin(), places.end(), static_cast<uint32_t>(block));
      if (first != places.end() && *first < block + kBlockBytes)
        core().fail(Check::partial_overlap,
                    std::string("an offset leads into ") + row.name + ", at UB offset " + std::to_string(*first), what);
    }
  }
}

// What gather and scatter share: `row` is the operand that is not indexed.
template <typename T>
void indexed(Instruction instruction, const void* where, const uint32_t* offsets, T* row, uint64_t word, bool scatter) {
  const Config config = unpack(word);
  VectorIssue decoded(instruction, where, lanes_of<T>(), config.repeat);
  decoded.issue().check_overlap = false;  // of the stretches declared below: places are compared one by one instead
  const Operand from = offsets_operand(offsets, lanes_of<T>());
  const Operand to = operand(scatter ? "src" : "dst", row, 1, scatter ? config.src_stride : config.dst_stride);
  decoded.read(from, kByteField, kByteField);
  if (scatter) {
    decoded.read(to, kByteField, kByteField);
  } else {
    decoded.write(to, kByteField, kByteField);
    const std::string wrong = check_overlap(decoded.issue());
    if (!wrong.empty()) decoded.fail(Check::partial_overlap, wrong);
  }
  uint64_t declared = 0;
  if (decoded.shape().repeats != 0 && !core().options().counts_only && readable(decoded.issue())) {
    std::vector<uint32_t> places = element_places(from, decoded.shape(), config.base);
    declared = digest(places);
    places.erase(std::remove_if(places.begin(), places.end(), [](uint32_t place) { return !fits(place, sizeof(T)); }),
                 places.end());
    declare_places(decoded, scatter ? "dst" : "src", places, sizeof(T), scatter);
  }
  core().issue(decoded.issue(), [=, shape = decoded.shape()] {
    const Issue what = named(instruction, where);
    const std::vector<uint32_t> places = element_places(from, shape, config.base);
    check_places(places, sizeof(T), scatter, what);
    check_places_apart(places, to, shape, what);
    if (scatter) check_places_apart(places, from, shape, what);
    check_unchanged(shape.repeats == 0 || digest(places) == declared, "the offsets", what);
    const uint8_t* base = core().base(Space::UB);
    size_t next = 0;
    T values[lanes_of<T>()];
    for (int32_t r = 0; r < shape.repeats; ++r) {
      if (scatter) load(to, shape, r, values);
      for (int i = 0; i < lanes_of<T>(); ++i) {
        if (!shape.lanes_of(r)[i]) continue;
        auto* element = reinterpret_cast<T*>(const_cast<uint8_t*>(base) + places[next++]);
        if (scatter) {
          memcpy(element, values + i, sizeof(T));
        } else {
          memcpy(values + i, element, sizeof(T));
        }
      }
      if (!scatter) store(to, shape, r, values);
    }
  });
}

constexpr int64_t kMostPattern = 7;

// Bits of the fixed patterns 1 to 7, for four lanes.
constexpr uint64_t kPatterns[kMostPattern + 1] = {0, 0x5, 0xa, 0x1, 0x2, 0x4, 0x8, 0xf};

struct Pattern {
  int64_t fixed;  // 0: `bits`
  const uint8_t* bits;
  int64_t stride;  // bytes from one repeat's bits to the next's

  Lanes of(int32_t repeat, int bytes) const {
    if (fixed != 0) return {kPatterns[fixed] * 0x1111111111111111, kPatterns[fixed] * 0x1111111111111111};
    uint64_t word[2] = {};
    memcpy(word, bits + repeat * stride, static_cast<size_t>(bytes));
    return {word[0], word[1]};
  }
};

// Lanes that one repeat keeps.
Lanes kept(const Shape& shape, const Pattern& pattern, int32_t repeat) {
  const Lanes bits = pattern.of(repeat, shape.lanes_per_repeat / 8);
  const Lanes& lanes = shape.lanes_of(repeat);
  return {bits.low & lanes.low, bits.high & lanes.high};
}

int64_t count_kept(const Shape& shape, const Pattern& pattern) {
  int64_t total = 0;
  for (int32_t r = 0; r < shape.repeats; ++r) total += count_lanes(kept(shape, pattern, r));
  return total;
}

VectorIssue decode_reduce(const void* where, int lanes, int64_t repeat, int64_t pattern) {
  Core& running = core();
  const bool counter = running.registers.counter_mode;
  const bool is_310p = running.target().npu_arch == kArch310P;
  VectorIssue decoded = counter ? VectorIssue(Instruction::vreduce, where, lanes, repeat)
                                : VectorIssue(Instruction::vreduce, where, lanes, repeat, false);
  if (counter && !is_310p)
    decoded.fail(Check::unsupported, "counter mode counts elements of each repeat on this chip, which is not emulated");
  decoded.limit("pattern", pattern, is_310p ? kMostPattern - 1 : kMostPattern);
  return decoded;
}

// The bits of all repeats but the last, and as much of the last's as has active lanes.
void add_pattern_bits(VectorIssue& decoded, const Pattern& pattern, int lanes) {
  const int32_t repeats = decoded.shape().repeats;
  Access access;
  access.operand = "src1";
  access.address = pattern.bits;
  access.bytes = lanes / 8;
  access.repeats = repeats - 1;
  access.repeat_stride = pattern.stride;
  if (repeats > 1) decoded.add(access);
  access.address = pattern.bits + (repeats - 1) * pattern.stride;
  access.bytes = (count_lanes(decoded.shape().last_lanes) + 7) / 8;
  access.repeats = 1;
  decoded.add(access);
}

// The packed result may not lie in the source at all.
void check_apart(VectorIssue& decoded, const uint8_t* dst, int64_t bytes, const Operand& src) {
  for (int32_t r = 0; r < decoded.shape().repeats; ++r) {
    const uint8_t* row = src.address + r * src.repeat_stride * kBlockBytes;
    for (int block = 0; block < kRepeatBytes / kBlockBytes; ++block, row += src.block_stride * kBlockBytes) {
      if (dst < row + kBlockBytes && row < dst + bytes)
        decoded.fail(Check::partial_overlap, "destination (dst) and source (src0) overlap");
    }
  }
}

template <typename T>
void gather_mask(const void* where, T* dst, const T* src0, const T* src1, int64_t repeat, const int64_t (&strides)[5],
                 int64_t pattern_number) {
  VectorIssue decoded = decode_reduce(where, lanes_of<T>(), repeat, pattern_number);
  decoded.limit("dst block stride", strides[0], kByteField);
  decoded.limit("dst repeat stride", strides[2], kByteField);
  decoded.limit("src1 repeat stride", strides[4], kByteField);
  const Operand from = operand("src0", const_cast<T*>(src0), strides[1], strides[3]);
  const Pattern pattern{pattern_number, reinterpret_cast<const uint8_t*>(src1), strides[4] * kBlockBytes};
  decoded.read(from, kByteField, kByteField);
  if (pattern.fixed == 0) add_pattern_bits(decoded, pattern, lanes_of<T>());
  const int64_t start = core().offset(Space::UB, pattern.bits);
  const int64_t end = start + (decoded.shape().repeats - 1) * pattern.stride + lanes_of<T>() / 8;
  const bool known =
      pattern.fixed != 0 || (!core().options().counts_only && start >= 0 && end <= core().target().ub_bytes);
  const int64_t count = known && decoded.shape().repeats != 0 ? count_kept(decoded.shape(), pattern) : 0;
  if (count != 0) {
    Access to;
    to.operand = "dst";
    to.write = true;
    to.address = dst;
    to.bytes = count * static_cast<int64_t>(sizeof(T));
    decoded.add(to);
    check_apart(decoded, reinterpret_cast<const uint8_t*>(dst), to.bytes, from);
  }
  core().issue(decoded.issue(), [=, shape = decoded.shape()] {
    check_unchanged(!known || count_kept(shape, pattern) == count, "the bits of src1",
                    named(Instruction::vreduce, where));
    T values[lanes_of<T>()];
    T* next = dst;
    for (int32_t r = 0; r < shape.repeats; ++r) {
      load(from, shape, r, values);
      const Lanes lanes = kept(shape, pattern, r);
      for (int i = 0; i < lanes_of<T>(); ++i) {
        if (lanes[i]) *next++ = values[i];
      }
    }
    core().registers.reserved_count = static_cast<uint64_t>(next - dst);
  });
}

}  // namespace
}  // namespace hajax::emulator

namespace sim = hajax::emulator;

#define HAJAX_DEFINE(T)                                                                                                \
  void vgather(T* dst, const uint32_t* offsets, uint64_t config) {                                                     \
    sim::indexed(sim::Instruction::vgather, HAJAX_WHERE(), offsets, dst, config, false);                               \
  }                                                                                                                    \
  void vscatter(const uint32_t* offsets, const T* src, uint64_t config) {                                              \
    sim::indexed(sim::Instruction::vscatter, HAJAX_WHERE(), offsets, const_cast<T*>(src), config, true);               \
  }                                                                                                                    \
  void vreduce(T* dst, const T* src0, const T* src1, int64_t repeat, int64_t dst_block_stride,                         \
               int64_t src0_block_stride, int64_t pattern, int64_t dst_repeat_stride, int64_t src0_repeat_stride,      \
               int64_t src1_repeat_stride) {                                                                           \
    sim::gather_mask(HAJAX_WHERE(), dst, src0, src1, repeat,                                                           \
                     {dst_block_stride, src0_block_stride, dst_repeat_stride, src0_repeat_stride, src1_repeat_stride}, \
                     pattern);                                                                                         \
  }
HAJAX_DEFINE(uint16_t)
HAJAX_DEFINE(uint32_t)
