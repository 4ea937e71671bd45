// Element-wise vector instructions: repeats one after the other, in each all lanes read before any is written.
#ifndef HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_VECTOR_LANES_H_
#define HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_VECTOR_LANES_H_

#include <stdint.h>
#include <string.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <type_traits>
#include <utility>

#include "native/emulator/instructions/vector_elements.h"
#include "native/emulator/instructions/vector_functions.h"
#include "native/emulator/instructions/vector_half.h"
#include "native/emulator/instructions/vector_shape.h"

namespace hajax::emulator {

// One repeat's elements of an operand. Blocks without an active lane are not read: they may lie outside of the memory.
template <typename T>
void load(const Operand& from, const Shape& shape, int32_t repeat, T* to) {
  constexpr int kPerBlock = kBlockBytes / static_cast<int>(sizeof(T));
  const int count = shape.lanes_per_repeat;
  const uint8_t* row = from.address + repeat * from.repeat_stride * kBlockBytes;
  if (shape.full_of(repeat) && from.block_stride == 1) {
    memcpy(to, row, static_cast<size_t>(count) * sizeof(T));
    return;
  }
  const Lanes& lanes = shape.lanes_of(repeat);
  for (int lane = 0; lane < count; lane += kPerBlock, row += from.block_stride * kBlockBytes) {
    if (lane_bits(lanes, lane, kPerBlock) != 0) {
      memcpy(to + lane, row, kBlockBytes);
    } else {
      memset(static_cast<void*>(to + lane), 0, kBlockBytes);
    }
  }
}

// The active lanes.
template <typename T>
void store(const Operand& to, const Shape& shape, int32_t repeat, const T* from) {
  constexpr int kPerBlock = kBlockBytes / static_cast<int>(sizeof(T));
  constexpr uint64_t kWholeBlock = (uint64_t{1} << kPerBlock) - 1;
  const int count = shape.lanes_per_repeat;
  uint8_t* row = to.address + repeat * to.repeat_stride * kBlockBytes;
  if (shape.full_of(repeat) && to.block_stride == 1) {
    memcpy(row, from, static_cast<size_t>(count) * sizeof(T));
    return;
  }
  const Lanes& lanes = shape.lanes_of(repeat);
  for (int lane = 0; lane < count; lane += kPerBlock, row += to.block_stride * kBlockBytes) {
    const uint64_t active = lane_bits(lanes, lane, kPerBlock);
    if (active == kWholeBlock) {
      memcpy(row, from + lane, kBlockBytes);
      continue;
    }
    for (int i = 0; i < kPerBlock; ++i) {
      if (active >> i & 1) memcpy(row + static_cast<size_t>(i) * sizeof(T), from + lane + i, sizeof(T));
    }
  }
}

template <typename T, typename R>
void narrow_array(const R* from, T* to, int count) {
  if constexpr (std::is_same_v<T, Half> && std::is_same_v<R, float>) {
    saturate_halves(from, to, count);
  } else {
    for (int i = 0; i < count; ++i) to[i] = narrow<T>(from[i]);
  }
}

template <typename D, typename... S>
constexpr int lanes_of_types() {
  size_t largest = sizeof(D);
  ((largest = std::max(largest, sizeof(S))), ...);
  return kRepeatBytes / static_cast<int>(largest);
}

template <typename T, int kLanes>
struct LaneBuffer {
  static constexpr bool kAsIs = std::is_same_v<T, Wide<T>>;
  alignas(kBlockBytes) T raw[kLanes];
  alignas(kBlockBytes) Wide<T> wide[kAsIs ? 1 : kLanes];

  const Wide<T>* get() const {
    if constexpr (kAsIs) {
      return raw;
    } else {
      return wide;
    }
  }
  void read(const Operand& from, const Shape& shape, int32_t repeat) {
    load(from, shape, repeat, raw);
    if constexpr (!kAsIs) widen(raw, wide, kLanes);
  }
};

// What the lanes of one repeat give, and which of them were clamped (a first result that was counts too).
template <typename D, int kLanes, typename Function, typename... V>
struct LaneResults {
  template <typename F, bool two_steps>
  struct Type {
    using type = decltype(std::declval<F>().value(V{}...));
  };
  template <typename F>
  struct Type<F, true> {
    using type = decltype(std::declval<F>().second(std::declval<F>().first(V{}...), V{}...));
  };
  using Step = typename Function::Step;
  static constexpr bool kTwoSteps = !std::is_void_v<Step>;
  using Result = typename Type<Function, kTwoSteps>::type;

  alignas(kBlockBytes) Result out[kLanes];
  alignas(kBlockBytes) D narrowed[kLanes];
  alignas(kBlockBytes) uint8_t clamped[kLanes];

  // Returns whether any lane was clamped, active or not.
  bool compute(const Function& function, const V*... from) {
    int any = 0;
    if constexpr (kTwoSteps) {
      using First = decltype(function.first(V{}...));
      alignas(kBlockBytes) First first[kLanes];
      alignas(kBlockBytes) Step stored[kLanes];
      alignas(kBlockBytes) Wide<Step> held[kLanes];
      for (int i = 0; i < kLanes; ++i) first[i] = function.first(from[i]...);
      narrow_array(first, stored, kLanes);
      widen(stored, held, kLanes);
      for (int i = 0; i < kLanes; ++i) out[i] = function.second(held[i], from[i]...);
      for (int i = 0; i < kLanes; ++i) clamped[i] = outside<Step>(first[i]) || outside<D>(out[i]) ? 1 : 0;
    } else {
      for (int i = 0; i < kLanes; ++i) out[i] = function.value(from[i]...);
      for (int i = 0; i < kLanes; ++i) clamped[i] = outside<D>(out[i]) ? 1 : 0;
    }
    narrow_array(out, narrowed, kLanes);
    for (int i = 0; i < kLanes; ++i) any += clamped[i];
    return any != 0;
  }

  uint64_t count(const Lanes& active, const V*... from) const {
    uint64_t found = 0;
    for (int i = 0; i < kLanes; ++i) found += active[i] && clamped[i] && (is_finite(from[i]) && ...) ? 1 : 0;
    return found;
  }
};

// dst[lane] = function(src[lane]...). Returns how many finite results were clamped.
template <typename D, typename... S, typename Function, size_t... I>
uint64_t run_lanes(const Shape& shape, const Function& function, const Operand& dst,
                   const std::array<Operand, sizeof...(S)>& src, std::index_sequence<I...>) {
  constexpr int kLanes = lanes_of_types<D, S...>();
  std::tuple<LaneBuffer<S, kLanes>...> in;
  LaneResults<D, kLanes, Function, Wide<S>...> results;
  uint64_t clamped = 0;
  for (int32_t repeat = 0; repeat < shape.repeats; ++repeat) {
    (std::get<I>(in).read(src[I], shape, repeat), ...);
    const bool any = results.compute(function, std::get<I>(in).get()...);
    if (any && function.counts) clamped += results.count(shape.lanes_of(repeat), std::get<I>(in).get()...);
    store(dst, shape, repeat, results.narrowed);
  }
  return clamped;
}

// Declares the operands and issues the instruction. The strides' widths are those of the argument fields.
template <typename D, typename... S, typename Function>
void issue_lanes(VectorIssue& decoded, const Function& function, const Operand& dst,
                 const std::array<Operand, sizeof...(S)>& src, int64_t most_block_stride) {
  for (const Operand& one : src) decoded.read(one, most_block_stride, kByteField);
  decoded.write(dst, most_block_stride, kByteField);
  const Instruction instruction = decoded.issue().instruction;
  const void* where = decoded.issue().where;
  core().issue(decoded.issue(), [=, shape = decoded.shape()] {
    const uint64_t clamped = run_lanes<D, S...>(shape, function, dst, src, std::index_sequence_for<S...>{});
    if (clamped != 0) core().saturated(clamped, named(instruction, where));
  });
}

}  // namespace hajax::emulator

#endif  // HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_VECTOR_LANES_H_
