// Reductions. Documents: "WholeReduceSum/Max/Min" ("ReduceRepeat"), "BlockReduceSum/Max/Min" ("ReduceDataBlock"),
// "PairReduceSum" ("ReducePairElem"), "GetReduceMaxMinCount" of the public API reference.
//
// Sums are binary trees over neighbours: lane 0 with 1, 2 with 3, ..., then those sums. Each sum is rounded to the
// element type and, for fp16, saturated (a NaN becomes 0 at the first sum it enters), as the documents' tables of
// special values show. A lane that is off is as if it were not there. Of equal extremes the first counts; a NaN is the
// extreme of what it is in. The destination may lie in the repeat's own source, which is read before it is written, but
// in no later repeat's. Blocks or pairs without an active lane are not written on 310P; 310B fills in the neutral
// value.
#include "native/emulator/core/services.h"
#include "native/emulator/instructions/vector.h"
#include "native/emulator/instructions/vector_lanes.h"

namespace hajax::emulator {
namespace {

constexpr int64_t kArch310B = 3002;
constexpr int kBlocks = kRepeatBytes / kBlockBytes;

struct ReduceArguments {
  Operand src;
  uint8_t* dst;
  int64_t dst_stride;  // in bytes
};

enum class Extreme { largest, smallest };

template <typename T>
constexpr int lanes_of() {
  return kRepeatBytes / static_cast<int>(sizeof(T));
}

template <typename T>
VectorIssue decode(Instruction instruction, const void* where, int64_t repeat) {
  VectorIssue decoded(instruction, where, lanes_of<T>(), repeat);
  decoded.issue().check_overlap = false;
  return decoded;
}

// What a repeat writes must not be the source of a later one.
void check_later_sources(VectorIssue& decoded, const ReduceArguments& arguments, int64_t dst_bytes) {
  const int32_t repeats = decoded.shape().repeats;
  const int64_t from = arguments.dst - arguments.src.address;  // relative to the source's start
  const int64_t stride = arguments.src.repeat_stride * kBlockBytes;
  const int64_t block_stride = arguments.src.block_stride * kBlockBytes;
  const int64_t extent = block_stride * (kBlocks - 1) + kBlockBytes;
  for (int32_t r = 0; r + 1 < repeats; ++r) {
    const int64_t written = from + r * arguments.dst_stride;
    if (written >= (repeats - 1) * stride + extent || written + dst_bytes <= (r + 1) * stride) continue;
    for (int32_t later = r + 1; later < repeats; ++later) {
      for (int block = 0; block < kBlocks; ++block) {
        const int64_t read = later * stride + block * block_stride;
        if (written >= read + kBlockBytes || written + dst_bytes <= read) continue;
        decoded.fail(Check::partial_overlap, "destination (dst) of repeat " + std::to_string(r) +
                                                 " and source (src) of repeat " + std::to_string(later) +
                                                 " overlap, so that a repeat reads what an earlier one writes");
      }
    }
  }
}

Access destination(const ReduceArguments& arguments, int64_t bytes, int32_t repeats, int64_t alignment) {
  Access access;
  access.operand = "dst";
  access.write = true;
  access.address = arguments.dst;
  access.bytes = bytes;
  access.repeats = repeats;
  access.repeat_stride = arguments.dst_stride;
  access.alignment = static_cast<int32_t>(alignment);
  return access;
}

template <typename T>
struct Values {
  static constexpr int kLanes = lanes_of<T>();
  LaneBuffer<T, kLanes> source;
  float lane[kLanes];

  // Lanes that are off hold `neutral`.
  void read(const ReduceArguments& arguments, const Shape& shape, int32_t repeat, float neutral) {
    source.read(arguments.src, shape, repeat);
    memcpy(lane, source.get(), sizeof lane);
    if (shape.full_of(repeat)) return;
    const Lanes& lanes = shape.lanes_of(repeat);
    for (int i = 0; i < kLanes; ++i) lane[i] = lanes[i] ? lane[i] : neutral;
  }

  // Clamped sums count when everything that the repeat added was finite.
  uint64_t counted(uint64_t clamped, const Lanes& lanes) const {
    if (clamped == 0) return 0;
    for (int i = 0; i < kLanes; ++i) {
      if (lanes[i] && !is_finite(source.get()[i])) return 0;
    }
    return clamped;
  }
};

// -0 + x is x for every x.
constexpr float kNothing = -0.0f;

// Adds neighbours until `count` values are `left`; returns how many sums were clamped.
template <typename T>
uint64_t add_neighbours(float* value, int count, int left) {
  int clamped = 0;
  float sum[lanes_of<T>() / 2];
  for (; count > left; count /= 2) {
    const int sums = count / 2;
    for (int i = 0; i < sums; ++i) sum[i] = value[2 * i] + value[2 * i + 1];
    for (int i = 0; i < sums; ++i) clamped += outside<T>(sum[i]) ? 1 : 0;
    if constexpr (std::is_same_v<T, Half>) {
      Half rounded[lanes_of<T>() / 2];
      saturate_halves(sum, rounded, sums);
      half_to_float(rounded, value, sums);
    } else {
      memcpy(value, sum, static_cast<size_t>(sums) * sizeof(float));
    }
  }
  return static_cast<uint64_t>(clamped);
}

template <typename T>
void put(uint8_t* to, float value) {
  const T element = narrow<T>(value);
  memcpy(to, &element, sizeof element);
}

template <typename T>
uint64_t register_bits(float value) {
  if constexpr (std::is_same_v<T, Half>) {
    return narrow<Half>(value).bits();
  } else {
    return bits_of(value);
  }
}

template <typename Compute>
void issue_reduction(VectorIssue& decoded, Compute compute) {
  const Instruction instruction = decoded.issue().instruction;
  const void* where = decoded.issue().where;
  core().issue(decoded.issue(), [=, shape = decoded.shape()] {
    const uint64_t clamped = compute(shape);
    if (clamped != 0) core().saturated(clamped, named(instruction, where));
  });
}

template <typename T>
void whole_sum(VectorIssue& decoded, const ReduceArguments& arguments) {
  constexpr int kSize = sizeof(T);
  check_later_sources(decoded, arguments, kSize);
  decoded.add(destination(arguments, kSize, decoded.shape().repeats, kSize));
  issue_reduction(decoded, [=](const Shape& shape) {
    Values<T> values;
    uint64_t clamped = 0;
    float total = kNothing;
    for (int32_t r = 0; r < shape.repeats; ++r) {
      values.read(arguments, shape, r, kNothing);
      clamped += values.counted(add_neighbours<T>(values.lane, lanes_of<T>(), 1), shape.lanes_of(r));
      put<T>(arguments.dst + r * arguments.dst_stride, values.lane[0]);
      float ends[2] = {total, values.lane[0]};
      add_neighbours<T>(ends, 2, 1);
      total = ends[0];
    }
    core().registers.accumulated = register_bits<T>(total);
    return clamped;
  });
}

// One access for each run of neighbouring blocks that have a result.
void add_block_results(VectorIssue& decoded, const ReduceArguments& arguments, int size, const Lanes& lanes,
                       int32_t first, int32_t repeats) {
  const int per_block = kBlockBytes / size;
  const auto written = [&](int block) {
    return block < kBlocks && lane_bits(lanes, block * per_block, per_block) != 0;
  };
  for (int block = 0; block < kBlocks; ++block) {
    if (!written(block)) continue;
    int end = block;
    while (written(end)) ++end;
    Access access = destination(arguments, int64_t{size} * (end - block), repeats, size);
    access.address = arguments.dst + first * arguments.dst_stride + block * size;
    decoded.add(access);
    block = end;
  }
}

// neutral: what lanes that are off hold, and what 310B writes for blocks without an active lane. `combine` leaves the
// results of the eight blocks in the first eight values and returns how many of its sums were clamped.
template <typename T, typename Combine>
void block_results(VectorIssue& decoded, const ReduceArguments& arguments, float neutral, Combine combine) {
  constexpr int kSize = sizeof(T);
  constexpr int kPerBlock = kBlockBytes / kSize;
  const Shape& decoded_shape = decoded.shape();
  const bool fills = core().target().npu_arch == kArch310B;
  check_later_sources(decoded, arguments, kBlocks * kSize);
  if ((arguments.dst - core().base(Space::UB)) % (kBlocks * kSize) != 0)
    decoded.fail(Check::misaligned, "dst: expected a multiple of " + std::to_string(kBlocks * kSize) +
                                        " bytes, the results of one repeat");
  if (decoded_shape.repeats != 0) {
    const Lanes every = first_lanes(lanes_of<T>());
    const bool last_differs = decoded.issue().has_last_lanes;
    add_block_results(decoded, arguments, kSize, fills ? every : decoded_shape.lanes, 0,
                      decoded_shape.repeats - (last_differs ? 1 : 0));
    if (last_differs)
      add_block_results(decoded, arguments, kSize, fills ? every : decoded_shape.last_lanes, decoded_shape.repeats - 1,
                        1);
  }
  issue_reduction(decoded, [=](const Shape& shape) {
    Values<T> values;
    uint64_t clamped = 0;
    for (int32_t r = 0; r < shape.repeats; ++r) {
      const Lanes& lanes = shape.lanes_of(r);
      values.read(arguments, shape, r, neutral);
      clamped += values.counted(combine(values.lane), lanes);
      for (int block = 0; block < kBlocks; ++block) {
        const bool any = lane_bits(lanes, block * kPerBlock, kPerBlock) != 0;
        uint8_t* to = arguments.dst + r * arguments.dst_stride + block * kSize;
        if (any || fills) put<T>(to, any ? values.lane[block] : neutral + 0.0f);
      }
    }
    return clamped;
  });
}

template <typename T>
void block_sum(VectorIssue& decoded, const ReduceArguments& arguments) {
  block_results<T>(decoded, arguments, kNothing,
                   [](float* lane) { return add_neighbours<T>(lane, lanes_of<T>(), kBlocks); });
}

template <typename T>
void block_extreme(VectorIssue& decoded, const ReduceArguments& arguments, Extreme which) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float neutral = which == Extreme::largest ? -kInfinity : kInfinity;
  block_results<T>(decoded, arguments, neutral, [which](float* lane) {
    float best[lanes_of<T>() / 2];
    for (int left = lanes_of<T>() / 2; left >= kBlocks; left /= 2) {
      if (which == Extreme::largest) {
        for (int i = 0; i < left; ++i) best[i] = larger(lane[2 * i], lane[2 * i + 1]);
      } else {
        for (int i = 0; i < left; ++i) best[i] = smaller(lane[2 * i], lane[2 * i + 1]);
      }
      memcpy(lane, best, static_cast<size_t>(left) * sizeof(float));
    }
    return uint64_t{0};
  });
}

// Lanes of which at least one of the pair is on.
uint64_t whole_pairs(uint64_t lanes) {
  constexpr uint64_t kEven = 0x5555555555555555;
  const uint64_t any = (lanes | lanes >> 1) & kEven;
  return any | any << 1;
}

template <typename T>
void pair_sum(VectorIssue& decoded, const ReduceArguments& arguments) {
  constexpr int kSize = sizeof(T);
  constexpr int kResults = lanes_of<T>() / 2;
  const bool fills = core().target().npu_arch == kArch310B;
  check_later_sources(decoded, arguments, kResults * kSize);
  // A pair is declared as read and written whole: its two lanes stand for the two halves of its result.
  Issue& issue = decoded.issue();
  for (Lanes* lanes : {&issue.lanes, &issue.last_lanes}) *lanes = {whole_pairs(lanes->low), whole_pairs(lanes->high)};
  Access access = destination(arguments, kResults * kSize / kBlocks, decoded.shape().repeats, kBlockBytes);
  access.blocks = kBlocks;
  access.block_stride = access.bytes;
  access.lane_bytes = fills ? 0 : kSize / 2;
  decoded.add(access);
  issue_reduction(decoded, [=](const Shape& shape) {
    Values<T> values;
    uint64_t clamped = 0;
    for (int32_t r = 0; r < shape.repeats; ++r) {
      values.read(arguments, shape, r, kNothing);
      const Lanes& lanes = shape.lanes_of(r);
      clamped += values.counted(add_neighbours<T>(values.lane, lanes_of<T>(), kResults), lanes);
      for (int i = 0; i < kResults; ++i) {
        const bool any = lanes[2 * i] || lanes[2 * i + 1];
        if (any || fills) put<T>(arguments.dst + r * arguments.dst_stride + i * kSize, any ? values.lane[i] : 0);
      }
    }
    return clamped;
  });
}

// Whether `value` takes the place of `best`: strictly beyond it, or the first NaN.
bool beats(float value, float best, Extreme which) {
  if (best != best) return false;
  if (value != value) return true;
  if (value == best) return false;
  return which == Extreme::largest ? value > best : value < best;
}

template <typename T>
void whole_extreme(VectorIssue& decoded, const ReduceArguments& arguments, Extreme which, bool index_first) {
  using Index = std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>;
  constexpr int kSize = sizeof(T);
  check_later_sources(decoded, arguments, 2 * kSize);
  decoded.add(destination(arguments, 2 * kSize, decoded.shape().repeats, 2 * kSize));
  issue_reduction(decoded, [=](const Shape& shape) {
    Values<T> values;
    float best_of_all = 0;
    int index_of_all = -1;
    for (int32_t r = 0; r < shape.repeats; ++r) {
      values.read(arguments, shape, r, 0);
      const Lanes& lanes = shape.lanes_of(r);
      int best = -1;
      for (int i = 0; i < lanes_of<T>(); ++i) {
        if (lanes[i] && (best < 0 || beats(values.lane[i], values.lane[best], which))) best = i;
      }
      const auto index = static_cast<Index>(best);
      uint8_t* to = arguments.dst + r * arguments.dst_stride;
      put<T>(to + (index_first ? kSize : 0), values.lane[best]);
      memcpy(to + (index_first ? 0 : kSize), &index, sizeof index);
      if (index_of_all < 0 || beats(values.lane[best], best_of_all, which)) {
        best_of_all = values.lane[best];
        index_of_all = best;
      }
    }
    if (index_of_all >= 0) {
      core().registers.max_min_value = register_bits<T>(best_of_all);
      core().registers.max_min_index = static_cast<uint64_t>(index_of_all);
    }
    return uint64_t{0};
  });
}

struct ReduceStrides {
  int64_t dst_repeat, src_block, src_repeat;
};

// dst_unit: bytes that dst's repeat stride counts.
template <typename T>
ReduceArguments arguments_of(VectorIssue& decoded, T* dst, const T* src, const ReduceStrides& strides,
                             int64_t dst_unit) {
  decoded.limit("dst repeat stride", strides.dst_repeat, kWordField);
  const Operand from = operand("src", const_cast<T*>(src), strides.src_block, strides.src_repeat);
  decoded.read(from, kWordField, kWordField);
  return {from, reinterpret_cast<uint8_t*>(dst), strides.dst_repeat * dst_unit};
}

}  // namespace
}  // namespace hajax::emulator

namespace sim = hajax::emulator;

#define HAJAX_REDUCTION(function, T, unit, ...)                                                               \
  void function(T* dst, const T* src, int64_t repeat, int64_t dst_repeat_stride, int64_t src_block_stride,    \
                int64_t src_repeat_stride) {                                                                  \
    sim::VectorIssue decoded = sim::decode<T>(sim::Instruction::function, HAJAX_WHERE(), repeat);             \
    const sim::ReduceArguments arguments =                                                                    \
        sim::arguments_of(decoded, dst, src, {dst_repeat_stride, src_block_stride, src_repeat_stride}, unit); \
    sim::__VA_ARGS__;                                                                                         \
  }
#define HAJAX_REDUCTIONS(T)                                                                               \
  HAJAX_REDUCTION(vcadd, T, sizeof(T), whole_sum<T>(decoded, arguments))                                  \
  HAJAX_REDUCTION(vcgadd, T, 8 * sizeof(T), block_sum<T>(decoded, arguments))                             \
  HAJAX_REDUCTION(vcgmax, T, 8 * sizeof(T), block_extreme<T>(decoded, arguments, sim::Extreme::largest))  \
  HAJAX_REDUCTION(vcgmin, T, 8 * sizeof(T), block_extreme<T>(decoded, arguments, sim::Extreme::smallest)) \
  HAJAX_REDUCTION(vcpadd, T, 128, pair_sum<T>(decoded, arguments))
HAJAX_REDUCTIONS(half)
HAJAX_REDUCTIONS(float)

#define HAJAX_EXTREME(function, T, which)                                                                              \
  void function(T* dst, const T* src, int64_t repeat, int64_t dst_repeat_stride, int64_t src_block_stride,             \
                int64_t src_repeat_stride, int64_t reserved0, int64_t reserved1, bool index_first) {                   \
    sim::VectorIssue decoded = sim::decode<T>(sim::Instruction::function, HAJAX_WHERE(), repeat);                      \
    for (const int64_t value : {reserved0, reserved1}) decoded.reserved("a reserved argument", value);                 \
    const sim::ReduceArguments arguments =                                                                             \
        sim::arguments_of(decoded, dst, src, {dst_repeat_stride, src_block_stride, src_repeat_stride}, 2 * sizeof(T)); \
    sim::whole_extreme<T>(decoded, arguments, which, index_first);                                                     \
  }
HAJAX_EXTREME(vcmax, half, sim::Extreme::largest)
HAJAX_EXTREME(vcmax, float, sim::Extreme::largest)
HAJAX_EXTREME(vcmin, half, sim::Extreme::smallest)
HAJAX_EXTREME(vcmin, float, sim::Extreme::smallest)
