// ReduceSum, ReduceMax, ReduceMin: over a whole tensor, in steps through a work buffer. The steps are the device's: a
// result for each repeat into the work buffer, then results of results, the last ones and the index through the scalar
// unit. What orders V against S and MTE3 in between is part of the call.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_REDUCE_TENSOR_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_REDUCE_TENSOR_H_

#include "native/emulator/ascendc/common/pipe.h"
#include "native/emulator/ascendc/common/reduce.h"

namespace hajax::ascendc {

template <typename T>
inline constexpr int64_t kReduceLanes = AscendC::ONE_REPEAT_BYTE_SIZE / static_cast<int64_t>(sizeof(T));
template <typename T>
inline constexpr int64_t kReduceBlock = AscendC::ONE_BLK_SIZE / static_cast<int64_t>(sizeof(T));

// Lanes of the two mask registers.
struct LaneMask {
  uint64_t high;
  uint64_t low;
};

constexpr LaneMask first_lanes(int64_t count) {
  return {count > 64 ? FULL_MASK >> (128 - count) : 0, count >= 64 ? FULL_MASK : (uint64_t{1} << count) - 1};
}
// The values of the first `pairs` (value, index).
constexpr LaneMask value_lanes(int64_t pairs) {
  constexpr uint64_t kEven = 0x5555555555555555;
  const LaneMask all = first_lanes(2 * pairs);
  return {all.high & kEven, all.low & kEven};
}

// One tensor's reduction of one kind.
template <ReduceType type, typename T>
class TensorReduction {
 public:
  TensorReduction(const char* api, T* dst, T* work) : api_(api), dst_(dst), work_(work) {}

  // Of `repeats` repeats of src; the result, and its index if asked for, into dst.
  HAJAX_API void run(const T* src, LaneMask lanes, int64_t repeats, int64_t src_stride, bool index) {
    if (index) {
      with_index(src, lanes, repeats, src_stride);
    } else if (repeats == 1) {
      operate(work_, src, 1, src_stride, lanes);
      scalar_result();
    } else if constexpr (type == ReduceType::SUM) {
      sum(src, lanes, repeats, src_stride);
    } else {
      extreme(src, lanes, repeats, src_stride);
    }
  }

  // Elements of the work buffer that run() needs.
  static int64_t work_size(int64_t repeats, bool index) {
    constexpr int64_t kBlock = kReduceBlock<T>;
    const auto rounded = [](int64_t count) { return (count + kBlock - 1) / kBlock * kBlock; };
    if (type == ReduceType::SUM) return rounded(repeats);
    if (!index) return rounded(2 * repeats);
    int64_t size = 0;
    int64_t left = 2 * repeats;
    for (size = rounded(left); left > 2; size += rounded(left)) {
      left = 2 * ((left + kReduceLanes<T> - 1) / kReduceLanes<T>);
    }
    return size;
  }

  // Bits of the index behind a value.
  HAJAX_API static uint32_t index_at(const T* place) {
    using Bits = std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>;
    Bits bits = 0;
    const T value = read(place);
    __builtin_memcpy(&bits, static_cast<const void*>(&value), sizeof(bits));
    return bits;
  }
  HAJAX_API static void put_index(T* place, uint32_t index) {
    T value;
    __builtin_memcpy(static_cast<void*>(&value), &index, sizeof(T));
    write(place, value);
  }
  HAJAX_API static T read(const T* place) {
    hajax::emulator::scalar_read(Space::UB, place, sizeof(T));
    return *place;
  }
  HAJAX_API static void write(T* place, T value) {
    hajax::emulator::scalar_write(Space::UB, place, sizeof(T));
    *place = value;
  }

  // What the scalar unit wrote is there for the vector unit and for copies out.
  HAJAX_API void publish() {
    order(api_, HardEvent::S_V);
    order(api_, HardEvent::S_MTE3);
  }

 private:
  static constexpr int64_t kLanes = kReduceLanes<T>;
  static constexpr int64_t kMostRepeats = AscendC::MAX_REPEAT_TIMES;
  static constexpr int kLevels = 4;

  HAJAX_API void operate(T* dst, const T* src, int64_t repeats, int64_t src_stride, LaneMask lanes) {
    set_vector_mask(lanes.high, lanes.low);
    reduce_repeats<type>(api_, dst, src, {repeats, 1, 1, src_stride});
  }

  HAJAX_API void scalar_result() {
    order(api_, HardEvent::V_S);
    write(dst_, read(work_));
    publish();
  }

  // A result of `results` elements for each repeat, into the work buffer.
  HAJAX_API void first_step(const T* src, LaneMask lanes, int64_t repeats, int64_t src_stride, int64_t results) {
    for (int64_t done = 0; done < repeats; done += kMostRepeats) {
      const int64_t left = repeats - done;
      operate(work_ + done * results, src + done * src_stride * kReduceBlock<T>,
              left < kMostRepeats ? left : kMostRepeats, src_stride, lanes);
    }
    pipe_barrier(PIPE_V);
  }

  HAJAX_API void sum(const T* src, LaneMask lanes, int64_t repeats, int64_t src_stride) {
    first_step(src, lanes, repeats, src_stride, 1);
    set_mask_count();
    operate(work_, work_, 1, AscendC::DEFAULT_REPEAT_STRIDE, {0, static_cast<uint64_t>(repeats)});
    set_mask_norm();
    pipe_barrier(PIPE_V);
    const int64_t left = (repeats + kLanes - 1) / kLanes;
    expect_range(api_, "repeats of sums", left, 1, kLanes);
    if (left == 1) {
      scalar_result();
    } else {
      operate(dst_, work_, 1, AscendC::DEFAULT_REPEAT_STRIDE, first_lanes(left));
    }
  }

  // From `count` elements of pairs at `from` to one pair for each repeat of them at `to`; returns their elements.
  HAJAX_API int64_t next_level(T* to, const T* from, int64_t count) {
    const int64_t whole = count / kLanes;
    const int64_t rest = count % kLanes;
    if (whole != 0) operate(to, from, whole, AscendC::DEFAULT_REPEAT_STRIDE, value_lanes(kLanes / 2));
    if (whole != 0 && rest != 0) pipe_barrier(PIPE_V);
    if (rest != 0) {
      operate(to + 2 * whole, from + kLanes * whole, 1, AscendC::DEFAULT_REPEAT_STRIDE, value_lanes(rest / 2));
    }
    pipe_barrier(PIPE_V);
    return 2 * (whole + (rest != 0 ? 1 : 0));
  }

  HAJAX_API void extreme(const T* src, LaneMask lanes, int64_t repeats, int64_t src_stride) {
    first_step(src, lanes, repeats, src_stride, 2);
    int64_t count = next_level(work_, work_, 2 * repeats);
    while (count > kLanes) count = next_level(work_, work_, count);
    operate(work_, work_, 1, AscendC::DEFAULT_REPEAT_STRIDE, value_lanes(count / 2));
    scalar_result();
  }

  HAJAX_API void with_index(const T* src, LaneMask lanes, int64_t repeats, int64_t src_stride) {
    if (repeats == 1) {
      operate(dst_, src, 1, src_stride, lanes);
      return;
    }
    T* levels[kLevels] = {work_};
    first_step(src, lanes, repeats, src_stride, 2);
    int last = 0;
    int64_t count = 2 * repeats;
    while (count > 2) {
      expect_range(api_, "levels of results", last + 1, 1, kLevels - 1);
      levels[last + 1] = levels[last] + (count + kReduceBlock<T> - 1) / kReduceBlock<T> * kReduceBlock<T>;
      count = next_level(levels[last + 1], levels[last], count);
      ++last;
    }
    order(api_, HardEvent::V_S);
    write(dst_, read(levels[last]));
    // Each level's index names the pair of the level before. Runs that only count find no lane there, hence the
    // remainder.
    int64_t pair = 0;
    for (int level = last; level > 0; --level) {
      pair = (kLanes * pair + index_at(levels[level] + 2 * pair + 1) % kLanes) / 2;
    }
    const int64_t lane = index_at(work_ + 2 * pair + 1) % kLanes;
    put_index(dst_ + 1, static_cast<uint32_t>(pair * src_stride * kReduceBlock<T> + lane));
    publish();
  }

  const char* api_;
  T* dst_;
  T* work_;
};

template <ReduceType type, typename T>
HAJAX_API TensorReduction<type, T> reduction(const char* api, const AscendC::LocalTensor<T>& dst,
                                             const AscendC::LocalTensor<T>& work, int64_t repeats, int64_t least,
                                             bool index) {
  check_reduce<T>();
  const int64_t size = TensorReduction<type, T>::work_size(repeats, index);
  expect_range(api, "repeatTime", repeats, 1, AscendC::TOTAL_UB_SIZE / AscendC::ONE_REPEAT_BYTE_SIZE);
  expect_range(api, "elements of sharedTmpBuffer", work.GetSize(), size < least ? least : size, INT32_MAX);
  return {api, pointer(dst), pointer(work)};
}

template <ReduceType type, typename T>
HAJAX_API void reduce_strided(const char* api, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                              const AscendC::LocalTensor<T>& work, LaneMask lanes, int64_t repeats, int64_t stride,
                              bool index) {
  if (lanes.high == 0 && lanes.low == 0) {
    kernel_fault(Check::limit, Text() << api << ": mask: expected at least one lane, got none");
  }
  reduction<type>(api, dst, work, repeats, 1, index).run(pointer(src), lanes, repeats, stride, index);
}

// The body of whole repeats, then what is left, then both results once more. One loop, as its steps are inlined: they
// are the kernel's longest.
template <ReduceType type, typename T>
HAJAX_API void reduce_count(const char* api, const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                            const AscendC::LocalTensor<T>& work, int64_t count, bool index) {
  using Reduction = TensorReduction<type, T>;
  constexpr int64_t kLanes = kReduceLanes<T>;
  enum Phase { kBody, kRest, kBoth };
  expect_range(api, "count", count, 1, AscendC::TOTAL_UB_SIZE / static_cast<int64_t>(sizeof(T)));
  const int64_t whole = count / kLanes;
  const int64_t rest = whole == 0 ? 0 : count % kLanes;
  T* to = pointer(dst);
  Reduction steps = reduction<type>(api, dst, work, whole == 0 ? 1 : whole, rest == 0 ? 1 : 2, index);
  uint32_t found[2] = {};  // indices of body and rest
  T value[2];
  for (int phase = kBody; phase <= (rest == 0 ? kBody : kBoth); ++phase) {
    const T* from = phase == kBody ? pointer(src) : phase == kRest ? pointer(src) + kLanes * whole : pointer(work);
    const int64_t lanes = phase == kBody ? (whole == 0 ? count : kLanes) : phase == kRest ? rest : 2;
    const int64_t repeats = phase == kBody && whole != 0 ? whole : 1;
    steps.run(from, first_lanes(lanes), repeats, AscendC::DEFAULT_REPEAT_STRIDE, index);
    if (rest == 0 || phase == kBoth) break;
    order(api, HardEvent::V_S);
    value[phase] = Reduction::read(to);
    if (index) found[phase] = Reduction::index_at(to + 1);
    if (phase == kBody) continue;
    Reduction::write(pointer(work), value[kBody]);
    Reduction::write(pointer(work) + 1, value[kRest]);
    order(api, HardEvent::S_V);
  }
  if (rest == 0) {
    if (type == ReduceType::SUM) order(api, HardEvent::V_S);
    return;
  }
  if (!index) return;
  order(api, HardEvent::V_S);
  const bool from_rest = Reduction::index_at(to + 1) == 1;
  Reduction::put_index(to + 1, from_rest ? static_cast<uint32_t>(kLanes * whole) + found[kRest] : found[kBody]);
  steps.publish();
}

}  // namespace hajax::ascendc

namespace AscendC {

template <typename T, bool isSetMask = true>
HAJAX_API void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer,
                         int32_t count) {
  hajax::ascendc::reduce_count<ReduceType::SUM>("ReduceSum", dst, src, sharedTmpBuffer, count, false);
}
template <typename T>
HAJAX_API void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer,
                         int32_t mask, int32_t repeatTime, int32_t srcRepStride) {
  hajax::ascendc::expect_range("ReduceSum", "mask, a number of lanes", mask, 1, hajax::ascendc::kReduceLanes<T>);
  hajax::ascendc::reduce_strided<ReduceType::SUM>("ReduceSum", dst, src, sharedTmpBuffer,
                                                  hajax::ascendc::first_lanes(mask), repeatTime, srcRepStride, false);
}
template <typename T>
HAJAX_API void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer,
                         const uint64_t mask[], int32_t repeatTime, int32_t srcRepStride) {
  hajax::ascendc::reduce_strided<ReduceType::SUM>("ReduceSum", dst, src, sharedTmpBuffer, {mask[1], mask[0]},
                                                  repeatTime, srcRepStride, false);
}

#define HAJAX_EXTREME(Name, type)                                                                                      \
  template <typename T>                                                                                                \
  HAJAX_API void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer,     \
                      int32_t count, bool calIndex = false) {                                                          \
    hajax::ascendc::reduce_count<ReduceType::type>(#Name, dst, src, sharedTmpBuffer, count, calIndex);                 \
  }                                                                                                                    \
  template <typename T>                                                                                                \
  HAJAX_API void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer,     \
                      int32_t mask, int32_t repeatTime, int32_t srcRepStride, bool calIndex = false) {                 \
    hajax::ascendc::expect_range(#Name, "mask, a number of lanes", mask, 1, hajax::ascendc::kReduceLanes<T>);          \
    hajax::ascendc::reduce_strided<ReduceType::type>(                                                                  \
        #Name, dst, src, sharedTmpBuffer, hajax::ascendc::first_lanes(mask), repeatTime, srcRepStride, calIndex);      \
  }                                                                                                                    \
  template <typename T>                                                                                                \
  HAJAX_API void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer,     \
                      const uint64_t mask[], int32_t repeatTime, int32_t srcRepStride, bool calIndex = false) {        \
    hajax::ascendc::reduce_strided<ReduceType::type>(#Name, dst, src, sharedTmpBuffer, {mask[1], mask[0]}, repeatTime, \
                                                     srcRepStride, calIndex);                                          \
  }
HAJAX_EXTREME(ReduceMax, MAX)
HAJAX_EXTREME(ReduceMin, MIN)
#undef HAJAX_EXTREME

}  // namespace AscendC

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_REDUCE_TENSOR_H_
