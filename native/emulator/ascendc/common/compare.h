// Compare, Compares and CompareScalar: a bit for each element, 1 where the comparison holds.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_COMPARE_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_COMPARE_H_

#include "native/emulator/ascendc/common/mask.h"
#include "native/emulator/ascendc/common/refuse.h"

namespace hajax::ascendc {

using AscendC::CMPMODE;

// The instruction of each mode.
#define HAJAX_COMPARE_SWITCH(api, mode, family, ...) \
  switch (mode) {                                    \
    case CMPMODE::LT:                                \
      family##_lt(__VA_ARGS__);                      \
      return;                                        \
    case CMPMODE::GT:                                \
      family##_gt(__VA_ARGS__);                      \
      return;                                        \
    case CMPMODE::EQ:                                \
      family##_eq(__VA_ARGS__);                      \
      return;                                        \
    case CMPMODE::LE:                                \
      family##_le(__VA_ARGS__);                      \
      return;                                        \
    case CMPMODE::GE:                                \
      family##_ge(__VA_ARGS__);                      \
      return;                                        \
    case CMPMODE::NE:                                \
      family##_ne(__VA_ARGS__);                      \
      return;                                        \
  }                                                  \
  kernel_fault(Check::unsupported,                   \
               Text() << api << ": cmpMode: expected LT, GT, EQ, LE, GE or NE, got " << static_cast<int>(mode));

template <typename T>
HAJAX_API void compare(const char* api, uint8_t* dst, const T* src0, const T* src1, CMPMODE mode, int64_t repeats,
                       const AscendC::BinaryRepeatParams& p) {
  HAJAX_COMPARE_SWITCH(api, mode, vcmpv, dst, src0, src1, repeats, p.dstBlkStride, p.src0BlkStride, p.src1BlkStride,
                       p.dstRepStride, p.src0RepStride, p.src1RepStride)
}

template <typename T>
HAJAX_API void compare_scalar(const char* api, uint8_t* dst, const T* src, T scalar, CMPMODE mode, int64_t repeats,
                              const AscendC::UnaryRepeatParams& p) {
  HAJAX_COMPARE_SWITCH(api, mode, vcmpvs, dst, src, scalar, repeats, p.dstBlkStride, p.srcBlkStride, p.dstRepStride,
                       p.srcRepStride)
}

template <typename T>
HAJAX_API void compare_to_register(const T* src0, const T* src1, CMPMODE mode, const AscendC::BinaryRepeatParams& p) {
  HAJAX_COMPARE_SWITCH("Compare", mode, vcmp, src0, src1, 1, p.dstBlkStride, p.src0BlkStride, p.src1BlkStride,
                       p.dstRepStride, p.src0RepStride, p.src1RepStride)
}
#undef HAJAX_COMPARE_SWITCH

template <typename T, typename U>
constexpr void check_compare() {
  static_assert(AscendC::SupportType<T, half, float>(), "AscendC::Compare: on " HAJAX_CHIP " emulated for half, float");
  static_assert(AscendC::SupportType<U, int8_t, uint8_t>(), "AscendC::Compare: dst: int8_t or uint8_t");
}

// Comparisons of `count` elements work on whole repeats, whatever the mask; calls of at most 252 repeats, after which
// the bits stop at the end of a block.
inline constexpr int64_t kCompareRepeats = 252;

template <typename T>
HAJAX_API int64_t compare_repeats(const char* api, int64_t count) {
  const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
  expect_multiple(api, "bytes of the count", bytes, AscendC::ONE_REPEAT_BYTE_SIZE,
                  "Pad the operands, and compare whole repeats of 256 bytes");
  const int64_t repeats = bytes / AscendC::ONE_REPEAT_BYTE_SIZE;
  expect_range(api, "count in repeats of 256 bytes", repeats, 1,
               AscendC::TOTAL_UB_SIZE / AscendC::ONE_REPEAT_BYTE_SIZE);
  return repeats;
}

// part(first element, repeats) for each call.
template <typename T, typename Part>
HAJAX_API void compare_parts(int64_t repeats, const Part& part) {
  for (int64_t done = 0; done < repeats; done += kCompareRepeats) {
    const int64_t left = repeats - done;
    part(done * (AscendC::ONE_REPEAT_BYTE_SIZE / static_cast<int64_t>(sizeof(T))),
         left < kCompareRepeats ? left : kCompareRepeats);
  }
}

}  // namespace hajax::ascendc

namespace AscendC {

template <typename T, typename U>
HAJAX_API void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
                       CMPMODE cmpMode, uint32_t count) {
  hajax::ascendc::check_compare<T, U>();
  hajax::ascendc::compare_parts<T>(hajax::ascendc::compare_repeats<T>("Compare", count), [&](int64_t at,
                                                                                             int64_t repeats) {
    hajax::ascendc::compare(
        "Compare", reinterpret_cast<uint8_t*>(hajax::ascendc::pointer(dst)) + at / ONE_BYTE_BIT_SIZE,
        hajax::ascendc::pointer(src0) + at, hajax::ascendc::pointer(src1) + at, cmpMode, repeats, BinaryRepeatParams());
  });
}

#define HAJAX_COMPARE_SCALAR(Name)                                                                          \
  template <typename T, typename U>                                                                         \
  HAJAX_API void Name(const LocalTensor<U>& dst, const LocalTensor<T>& src0, T src1Scalar, CMPMODE cmpMode, \
                      uint32_t count) {                                                                     \
    hajax::ascendc::check_compare<T, U>();                                                                  \
    static_assert(std::is_same_v<U, uint8_t>, "AscendC::" #Name ": dst: uint8_t");                          \
    hajax::ascendc::compare_parts<T>(                                                                       \
        hajax::ascendc::compare_repeats<T>(#Name, count), [&](int64_t at, int64_t repeats) {                \
          hajax::ascendc::compare_scalar(#Name, hajax::ascendc::pointer(dst) + at / ONE_BYTE_BIT_SIZE,      \
                                         hajax::ascendc::pointer(src0) + at, src1Scalar, cmpMode, repeats,  \
                                         UnaryRepeatParams());                                              \
        });                                                                                                 \
  }
HAJAX_COMPARE_SCALAR(CompareScalar)
HAJAX_COMPARE_SCALAR(Compares)
#undef HAJAX_COMPARE_SCALAR

}  // namespace AscendC

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_COMPARE_H_
