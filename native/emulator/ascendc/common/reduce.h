// Reductions of one instruction: over whole repeats (WholeReduce, RepeatReduceSum, ReduceRepeat), over blocks
// (BlockReduce, ReduceDataBlock), over pairs (PairReduceSum, ReducePairElem).
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_REDUCE_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_REDUCE_H_

#include "native/emulator/ascendc/common/mask.h"
#include "native/emulator/ascendc/common/refuse.h"

namespace hajax::ascendc {

using AscendC::ReduceOrder;
using AscendC::ReduceType;

template <typename T, typename U = T>
constexpr void check_reduce() {
  static_assert(AscendC::SupportType<T, half, float>() && std::is_same_v<T, U>,
                "reductions of AscendC: on " HAJAX_CHIP " emulated for half, float, the same type for dst and src");
}

struct ReduceStrides {
  int64_t repeats;
  int64_t dst_repeat;
  int64_t src_block;
  int64_t src_repeat;
};

// Whether the index of an extreme stands before its value in the result.
HAJAX_API bool index_first(const char* api, ReduceOrder order) {
  if (order == ReduceOrder::ORDER_VALUE_INDEX) return false;
  if (__NPU_ARCH__ != 2002 || order != ReduceOrder::ORDER_INDEX_VALUE) {
    kernel_fault(Check::unsupported, Text() << api << ": order: " HAJAX_CHIP ": expected ORDER_VALUE_INDEX"
                                            << (__NPU_ARCH__ == 2002 ? " or ORDER_INDEX_VALUE" : "") << ", got number "
                                            << static_cast<int>(order));
  }
  return true;
}

template <ReduceType type, typename T>
HAJAX_API void reduce_repeats(const char* api, T* dst, const T* src, const ReduceStrides& s,
                              ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX) {
  check_reduce<T>();
  if constexpr (type == ReduceType::SUM) {
    vcadd(dst, src, s.repeats, s.dst_repeat, s.src_block, s.src_repeat);
  } else if constexpr (type == ReduceType::MAX) {
    vcmax(dst, src, s.repeats, s.dst_repeat, s.src_block, s.src_repeat, 0, 0, index_first(api, order));
  } else {
    vcmin(dst, src, s.repeats, s.dst_repeat, s.src_block, s.src_repeat, 0, 0, index_first(api, order));
  }
}

template <ReduceType type, typename T>
HAJAX_API void reduce_blocks(const char*, T* dst, const T* src, const ReduceStrides& s) {
  check_reduce<T>();
  if constexpr (type == ReduceType::SUM) {
    vcgadd(dst, src, s.repeats, s.dst_repeat, s.src_block, s.src_repeat);
  } else if constexpr (type == ReduceType::MAX) {
    vcgmax(dst, src, s.repeats, s.dst_repeat, s.src_block, s.src_repeat);
  } else {
    vcgmin(dst, src, s.repeats, s.dst_repeat, s.src_block, s.src_repeat);
  }
}

template <ReduceType type, typename T>
HAJAX_API void reduce_pairs(const char*, T* dst, const T* src, const ReduceStrides& s) {
  check_reduce<T>();
  static_assert(type == ReduceType::SUM, "AscendC::ReducePairElem: on " HAJAX_CHIP " for ReduceType::SUM");
  vcpadd(dst, src, s.repeats, s.dst_repeat, s.src_block, s.src_repeat);
}

}  // namespace hajax::ascendc

namespace AscendC {

// The older names take the mask before or after the repeats, the newer ones before.
#define HAJAX_MASK_THEN_REPEATS(Mask) Mask, int32_t repeatTime
#define HAJAX_REPEATS_THEN_MASK(Mask) int32_t repeatTime, Mask

#define HAJAX_REDUCE_FORM(Name, function, type, Arguments, lanes)                                                 \
  template <typename T, bool isSetMask = true>                                                                    \
  HAJAX_API void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, Arguments, int32_t dstRepStride,      \
                      int32_t srcBlkStride, int32_t srcRepStride) {                                               \
    hajax::ascendc::use_mask<T, isSetMask>(#Name, lanes);                                                         \
    hajax::ascendc::function<ReduceType::type>(#Name, hajax::ascendc::pointer(dst), hajax::ascendc::pointer(src), \
                                               {repeatTime, dstRepStride, srcBlkStride, srcRepStride});           \
  }
#define HAJAX_REDUCE(Name, function, type, ORDER)                                           \
  HAJAX_REDUCE_FORM(Name, function, type, ORDER(int32_t mask), static_cast<uint64_t>(mask)) \
  HAJAX_REDUCE_FORM(Name, function, type, ORDER(const uint64_t mask[]), mask)

HAJAX_REDUCE(WholeReduceSum, reduce_repeats, SUM, HAJAX_MASK_THEN_REPEATS)
HAJAX_REDUCE(BlockReduceSum, reduce_blocks, SUM, HAJAX_REPEATS_THEN_MASK)
HAJAX_REDUCE(BlockReduceMax, reduce_blocks, MAX, HAJAX_REPEATS_THEN_MASK)
HAJAX_REDUCE(BlockReduceMin, reduce_blocks, MIN, HAJAX_REPEATS_THEN_MASK)
HAJAX_REDUCE(PairReduceSum, reduce_pairs, SUM, HAJAX_REPEATS_THEN_MASK)
#undef HAJAX_REDUCE
#undef HAJAX_REDUCE_FORM
#undef HAJAX_REPEATS_THEN_MASK
#undef HAJAX_MASK_THEN_REPEATS

// Value and index of each repeat's extreme.
#define HAJAX_EXTREME_FORM(Name, type, Mask, lanes)                                                                  \
  template <typename T, bool isSetMask = true>                                                                       \
  HAJAX_API void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, Mask, int32_t repeatTime,                \
                      int32_t dstRepStride, int32_t srcBlkStride, int32_t srcRepStride,                              \
                      ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX) {                                          \
    hajax::ascendc::use_mask<T, isSetMask>(#Name, lanes);                                                            \
    hajax::ascendc::reduce_repeats<ReduceType::type>(#Name, hajax::ascendc::pointer(dst),                            \
                                                     hajax::ascendc::pointer(src),                                   \
                                                     {repeatTime, dstRepStride, srcBlkStride, srcRepStride}, order); \
  }
HAJAX_EXTREME_FORM(WholeReduceMax, MAX, int32_t mask, static_cast<uint64_t>(mask))
HAJAX_EXTREME_FORM(WholeReduceMax, MAX, const uint64_t mask[], mask)
HAJAX_EXTREME_FORM(WholeReduceMin, MIN, int32_t mask, static_cast<uint64_t>(mask))
HAJAX_EXTREME_FORM(WholeReduceMin, MIN, const uint64_t mask[], mask)
#undef HAJAX_EXTREME_FORM

// dstBlkStride means nothing: a repeat's sum is a single element.
template <typename T, bool isSetMask = true>
HAJAX_API void RepeatReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, int32_t repeatTime, int32_t mask,
                               int32_t /*dstBlkStride*/, int32_t srcBlkStride, int32_t dstRepStride,
                               int32_t srcRepStride) {
  WholeReduceSum<T, isSetMask>(dst, src, mask, repeatTime, dstRepStride, srcBlkStride, srcRepStride);
}

#define HAJAX_TYPED_REDUCE(Name, function, Mask, lanes)                                                     \
  template <ReduceType reduceType, typename T, typename U, bool isSetMask = true>                           \
  HAJAX_API void Name(const LocalTensor<T>& dst, const LocalTensor<U>& src, Mask, int32_t repeatTime,       \
                      int32_t dstRepStride, int32_t srcBlkStride, int32_t srcRepStride) {                   \
    hajax::ascendc::check_reduce<T, U>();                                                                   \
    static_assert(reduceType != ReduceType::NONE, "AscendC::" #Name ": reduceType: SUM, MAX or MIN");       \
    hajax::ascendc::use_mask<T, isSetMask>(#Name, lanes);                                                   \
    hajax::ascendc::function<reduceType>(#Name, hajax::ascendc::pointer(dst), hajax::ascendc::pointer(src), \
                                         {repeatTime, dstRepStride, srcBlkStride, srcRepStride});           \
  }
HAJAX_TYPED_REDUCE(ReduceDataBlock, reduce_blocks, int32_t mask, static_cast<uint64_t>(mask))
HAJAX_TYPED_REDUCE(ReduceDataBlock, reduce_blocks, const uint64_t mask[], mask)
HAJAX_TYPED_REDUCE(ReducePairElem, reduce_pairs, int32_t mask, static_cast<uint64_t>(mask))
HAJAX_TYPED_REDUCE(ReducePairElem, reduce_pairs, const uint64_t mask[], mask)
#undef HAJAX_TYPED_REDUCE

#define HAJAX_REDUCE_REPEAT(Mask, lanes)                                                                       \
  template <ReduceType reduceType, typename T, typename U, bool isSetMask = true>                              \
  HAJAX_API void ReduceRepeat(const LocalTensor<T>& dst, const LocalTensor<U>& src, Mask, int32_t repeatTime,  \
                              int32_t dstRepStride, int32_t srcBlkStride, int32_t srcRepStride,                \
                              ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX) {                            \
    hajax::ascendc::check_reduce<T, U>();                                                                      \
    static_assert(reduceType != ReduceType::NONE, "AscendC::ReduceRepeat: reduceType: SUM, MAX or MIN");       \
    hajax::ascendc::use_mask<T, isSetMask>("ReduceRepeat", lanes);                                             \
    hajax::ascendc::reduce_repeats<reduceType>("ReduceRepeat", hajax::ascendc::pointer(dst),                   \
                                               hajax::ascendc::pointer(src),                                   \
                                               {repeatTime, dstRepStride, srcBlkStride, srcRepStride}, order); \
  }
HAJAX_REDUCE_REPEAT(int32_t mask, static_cast<uint64_t>(mask))
HAJAX_REDUCE_REPEAT(const uint64_t mask[], mask)
#undef HAJAX_REDUCE_REPEAT

// The extreme over all repeats of the last WholeReduceMax or WholeReduceMin.
#if __NPU_ARCH__ == 2002
#define HAJAX_EXTREME_REGISTER(Name)                                                                   \
  template <typename T>                                                                                \
  HAJAX_API void Name(T& maxMinValue) {                                                                \
    static_assert(SupportType<T, half, float>(), "AscendC::" #Name ": half or float");                 \
    const auto bits = static_cast<uint32_t>(get_max_min_cnt());                                        \
    __builtin_memcpy(static_cast<void*>(&maxMinValue), &bits, sizeof(T));                              \
  }                                                                                                    \
  template <typename T>                                                                                \
  HAJAX_API void Name(uint32_t& maxMinValue) {                                                         \
    static_assert(SupportType<T, half, float>(), "AscendC::" #Name ": half or float");                 \
    maxMinValue = static_cast<uint32_t>(get_max_min_cnt()) & (sizeof(T) == 2 ? 0xFFFFU : 0xFFFFFFFFU); \
  }                                                                                                    \
  template <typename T, typename Index>                                                                \
  void Name(T&, Index&) {                                                                              \
    static_assert(hajax::ascendc::never<T>, "AscendC::" #Name ": with the index: not on " HAJAX_CHIP   \
                                            ": take it from dst of WholeReduceMax or WholeReduceMin"); \
  }
HAJAX_EXTREME_REGISTER(GetReduceMaxMinCount)
HAJAX_EXTREME_REGISTER(GetReduceRepeatMaxMinSpr)
#undef HAJAX_EXTREME_REGISTER
#endif

}  // namespace AscendC

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_REDUCE_H_
