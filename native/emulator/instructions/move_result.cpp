// Results of the cube between L0C and UB, converted on the way.
#include <string.h>

#include "native/emulator/instructions/arguments.h"
#include "native/emulator/instructions/gemm.h"
#include "native/emulator/instructions/move.h"
#include "native/emulator/instructions/move_runs.h"

namespace hajax::emulator {
namespace {

constexpr int64_t kBlock = 32;
constexpr int64_t kElements = 256;  // of a fractal in L0C, whatever their type
constexpr int64_t kRow = 16;
constexpr int64_t kMostRuns = 4095;
constexpr int64_t kMostUnits = 65535;
constexpr int64_t kMostBroadcast = 255;

enum class Step : uint8_t { copy, relu, narrow, narrow_relu, widen, scale, unsupported };

template <typename D, typename S>
Step step_of(ConvRelu_t mode, Space to) {
  if constexpr (std::is_same_v<D, S>) {
    if (mode == CRMODE_NONE) return Step::copy;
    if (to == Space::L0C) return Step::unsupported;
    if (mode == CRMODE_NONE_RELU && !std::is_same_v<S, uint32_t>) return Step::relu;
    if (mode == CRMODE_F16_MUL && std::is_same_v<S, Half>) return Step::scale;
  } else if constexpr (std::is_same_v<D, Half> && std::is_same_v<S, float>) {
    if (mode == CRMODE_F32toF16_NONE) return Step::narrow;
    if (mode == CRMODE_F32toF16_RELU) return Step::narrow_relu;
  } else if constexpr (std::is_same_v<D, float> && std::is_same_v<S, Half>) {
    if (mode == CRMODE_F16toF32_NONE) return Step::widen;
  } else if constexpr (std::is_same_v<D, Half> && std::is_same_v<S, int32_t>) {
    if (mode == CRMODE_S32toF16_NONE || mode == CRMODE_DEQSCALE_DEQ16) return Step::scale;
  }
  return Step::unsupported;
}

struct Conversion {
  Step step;
  float scale;
  bool relu_after;
};

constexpr uint64_t kShiftFirst = uint64_t{1} << 36;
constexpr uint64_t kReluAfter = uint64_t{1} << 47;

Conversion conversion_of(Step step, ConvRelu_t mode, uint64_t deq_scale, const Issue& what) {
  if (step == Step::unsupported) {
    core().fail(Check::unsupported,
                "mode " + std::to_string(static_cast<int>(mode)) + " with these types: not one that is emulated", what);
  }
  Conversion conversion = {step, 1, false};
  if (step != Step::scale) return conversion;
  if (mode == CRMODE_DEQSCALE_DEQ16) {
    if (deq_scale & kShiftFirst) {
      core().fail(Check::unsupported, "set_deqscale with a shift (bit 36): not emulated", what);
    }
    const auto bits = static_cast<uint32_t>(deq_scale);
    memcpy(&conversion.scale, &bits, sizeof bits);
    conversion.relu_after = (deq_scale & kReluAfter) != 0;
  } else {
    conversion.scale = half_to_float(static_cast<uint16_t>(deq_scale));
  }
  return conversion;
}

template <typename T>
T relu(T value) {
  if constexpr (std::is_same_v<T, Half>) {
    const auto exact = static_cast<float>(value);
    return exact < 0 || exact == 0 ? Half::from_bits(0) : value;
  } else {
    return value < 0 || value == 0 ? T{0} : value;  // a float's -0 too; NaN stays
  }
}

// In pieces that stay in the cache of the host.
constexpr int64_t kPiece = 1024;

template <typename S, typename Change>
uint64_t narrow_changed(Half* to, const S* from, int64_t count, Change change) {
  float changed[kPiece];
  int64_t clamped = 0;
  for (int64_t at = 0; at < count; at += kPiece) {
    const int64_t some = count - at < kPiece ? count - at : kPiece;
    for (int64_t i = 0; i < some; ++i) changed[i] = change(static_cast<float>(from[at + i]));
    clamped += gemm_kernels().narrow(changed, reinterpret_cast<uint16_t*>(to + at), some);
  }
  return static_cast<uint64_t>(clamped);
}

// Returns how many results were clamped.
template <typename D, typename S>
uint64_t convert(D* to, const S* from, int64_t count, const Conversion& conversion) {
  if constexpr (std::is_same_v<D, S>) {
    if (conversion.step == Step::copy) memcpy(static_cast<void*>(to), from, static_cast<size_t>(count) * sizeof(S));
    if (conversion.step == Step::relu) {
      for (int64_t i = 0; i < count; ++i) to[i] = relu(from[i]);
    }
  }
  if constexpr (std::is_same_v<D, Half> && std::is_same_v<S, float>) {
    if (conversion.step == Step::narrow) {
      return static_cast<uint64_t>(gemm_kernels().narrow(from, reinterpret_cast<uint16_t*>(to), count));
    }
    if (conversion.step == Step::narrow_relu) return narrow_changed(to, from, count, relu<float>);
  }
  if constexpr (std::is_same_v<D, float> && std::is_same_v<S, Half>) half_to_float(from, to, count);
  if constexpr (std::is_same_v<D, Half> && (std::is_same_v<S, Half> || std::is_same_v<S, int32_t>)) {
    if (conversion.step == Step::scale) {
      const float scale = conversion.scale;
      if (conversion.relu_after) return narrow_changed(to, from, count, [=](float x) { return relu(x * scale); });
      return narrow_changed(to, from, count, [=](float x) { return x * scale; });
    }
  }
  return 0;
}

enum class Units : uint8_t { matrix, vector };

// `count` runs of `length` units on one side. In L0C units are fractals apart, of which a vector's are the first rows.
template <typename T>
Access side(const char* operand, Space space, const T* address, Units units, int64_t count, int64_t length,
            int64_t gap) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(T));
  Access access;
  access.operand = operand;
  access.space = space;
  access.address = address;
  if (space != Space::L0C) {
    access.bytes = length * (units == Units::matrix ? kElements : kRow) * kBytes;
    access.blocks = static_cast<int32_t>(count);
    access.block_stride = access.bytes + gap * kBlock;
    return access;
  }
  constexpr int64_t kFractal = kElements * kBytes;
  if (kBytes == 4) access.alignment = static_cast<int32_t>(kFractal);
  if (units == Units::matrix) {
    access.bytes = length * kFractal;
    access.blocks = static_cast<int32_t>(count);
    access.block_stride = access.bytes + gap * kFractal;
    return access;
  }
  access.bytes = kRow * kBytes;
  access.blocks = static_cast<int32_t>(length);
  access.block_stride = kFractal;
  access.repeats = static_cast<int32_t>(count);
  access.repeat_stride = (length + gap) * kFractal;
  return access;
}

int64_t run_stride(const Access& access) { return access.repeats > 1 ? access.repeat_stride : access.block_stride; }

template <typename D, typename S>
uint64_t move_all(D* dst, const S* src, const Access& to, const Access& from, Units units, int64_t count,
                  int64_t length, const Conversion& conversion) {
  uint64_t clamped = 0;
  for (int64_t run = 0; run < count; ++run) {
    D* run_to = dst + run * run_stride(to) / static_cast<int64_t>(sizeof(D));
    const S* run_from = src + run * run_stride(from) / static_cast<int64_t>(sizeof(S));
    if (units == Units::matrix) {
      clamped += convert(run_to, run_from, length * kElements, conversion);
      continue;
    }
    const int64_t to_step = to.space == Space::L0C ? kElements : kRow;
    const int64_t from_step = from.space == Space::L0C ? kElements : kRow;
    for (int64_t unit = 0; unit < length; ++unit) {
      clamped += convert(run_to + unit * to_step, run_from + unit * from_step, kRow, conversion);
    }
  }
  return clamped;
}

struct Way {
  Instruction instruction;
  Path path;
  Space to;
  Space from;
  Units units;
};
constexpr Way kMatrixOut = {Instruction::copy_matrix_cc_to_ubuf, Path::l0c_to_ub, Space::UB, Space::L0C, Units::matrix};
constexpr Way kVectorOut = {Instruction::copy_vector_cc_to_ubuf, Path::l0c_to_ub, Space::UB, Space::L0C, Units::vector};
constexpr Way kMatrixIn = {Instruction::copy_matrix_ubuf_to_cc, Path::ub_to_l0c, Space::L0C, Space::UB, Units::matrix};
constexpr Way kVectorIn = {Instruction::copy_vector_ubuf_to_cc, Path::ub_to_l0c, Space::L0C, Space::UB, Units::vector};

template <typename D, typename S>
void issue_move(const Way& way, D* dst, const S* src, int64_t count, int64_t length, int64_t src_gap, int64_t dst_gap,
                ConvRelu_t mode, const void* where) {
  Issue what = new_issue(way.instruction, where);
  require_range(what, "count", count, 1, kMostRuns);
  require_range(what, "length", length, 1, kMostUnits);
  require_range(what, "src_gap", src_gap, 0, kMostUnits);
  require_range(what, "dst_gap", dst_gap, 0, kMostUnits);
  const Conversion conversion = conversion_of(step_of<D, S>(mode, way.to), mode, core().registers.deq_scale, what);
  const Access from = side("src", way.from, src, way.units, count, length, src_gap);
  Access to = side("dst", way.to, dst, way.units, count, length, dst_gap);
  to.write = true;
  what.add(from);
  what.add(to);
  what.path = way.path;
  what.bytes = static_cast<uint64_t>(from.bytes * from.blocks * from.repeats);
  what.units = static_cast<uint32_t>(count);
  const Way taken = way;
  core().issue(what, [=] {
    const uint64_t clamped = move_all(dst, src, to, from, taken.units, count, length, conversion);
    if (clamped != 0) core().saturated(clamped, new_issue(taken.instruction, where));
  });
}

template <typename T>
void issue_broadcast(T* dst, const T* src, int64_t count, int64_t length, int64_t src_gap, int64_t dst_gap,
                     const void* where) {
  Issue what = new_issue(Instruction::broadcast_ub_to_cc, where);
  require_range(what, "count", count, 1, kMostBroadcast);
  require_range(what, "length", length, 1, kMostBroadcast);
  require_range(what, "src_gap", src_gap, 0, kMostBroadcast);
  require_range(what, "dst_gap", dst_gap, 0, kMostBroadcast);
  constexpr auto kBytes = static_cast<int64_t>(sizeof(T));
  const int64_t from_stride = length * kRow * kBytes + src_gap * kBlock;
  const int64_t to_stride = (length + dst_gap) * kElements * kBytes;
  what.add(access_of("src", Space::UB, false, src, count, length * kRow * kBytes, from_stride));
  Access& to = what.add(access_of("dst", Space::L0C, true, dst, count, length * kElements * kBytes, to_stride));
  to.alignment = static_cast<int32_t>(kElements * kBytes);
  what.path = Path::ub_to_l0c;
  what.bytes = static_cast<uint64_t>(count * length * kRow * kBytes);
  what.units = static_cast<uint32_t>(count);
  core().issue(what, [=] {
    for (int64_t run = 0; run < count; ++run) {
      const T* group = src + run * from_stride / kBytes;
      T* fractal = dst + run * to_stride / kBytes;
      for (int64_t row = 0; row < length * kRow; ++row) {
        memcpy(static_cast<void*>(fractal + row * kRow), group + row / kRow * kRow, kRow * sizeof(T));
      }
    }
  });
}

}  // namespace
}  // namespace hajax::emulator

using namespace hajax::emulator;  // NOLINT: the instructions themselves are global

#define HAJAX_MOVE(name, way, D, S)                                                                   \
  void name(D* dst, S* src, int64_t, int64_t count, int64_t length, int64_t src_gap, int64_t dst_gap, \
            ConvRelu_t mode) {                                                                        \
    issue_move(way, dst, src, count, length, src_gap, dst_gap, mode, HAJAX_WHERE());                  \
  }
#define HAJAX_RESULT(D, S)                             \
  HAJAX_MOVE(copy_matrix_cc_to_ubuf, kMatrixOut, D, S) \
  HAJAX_MOVE(copy_vector_cc_to_ubuf, kVectorOut, D, S)
#define HAJAX_PRESET(D, S)                            \
  HAJAX_MOVE(copy_matrix_ubuf_to_cc, kMatrixIn, D, S) \
  HAJAX_MOVE(copy_vector_ubuf_to_cc, kVectorIn, D, S)

HAJAX_RESULT(half, half)
HAJAX_RESULT(float, float)
HAJAX_RESULT(int32_t, int32_t)
HAJAX_RESULT(uint32_t, uint32_t)
HAJAX_RESULT(half, float)
HAJAX_RESULT(half, int32_t)
HAJAX_RESULT(int8_t, int32_t)
HAJAX_RESULT(uint8_t, int32_t)
HAJAX_RESULT(int16_t, int32_t)
HAJAX_PRESET(half, half)
HAJAX_PRESET(float, float)
HAJAX_PRESET(int32_t, int32_t)
HAJAX_PRESET(uint32_t, uint32_t)
HAJAX_PRESET(float, half)

void broadcast_ub_to_cc(half* dst, half* src, int64_t count, int64_t length, int64_t src_gap, int64_t dst_gap) {
  issue_broadcast(dst, src, count, length, src_gap, dst_gap, HAJAX_WHERE());
}
void broadcast_ub_to_cc(float* dst, float* src, int64_t count, int64_t length, int64_t src_gap, int64_t dst_gap) {
  issue_broadcast(dst, src, count, length, src_gap, dst_gap, HAJAX_WHERE());
}
void broadcast_ub_to_cc(int32_t* dst, int32_t* src, int64_t count, int64_t length, int64_t src_gap, int64_t dst_gap) {
  issue_broadcast(dst, src, count, length, src_gap, dst_gap, HAJAX_WHERE());
}
