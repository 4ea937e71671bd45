// Cast: from one element type to another, with a rounding mode. Which pairs of types and which modes there are differs
// between chips (cast_modes.h); a pair that is not there does not compile.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_CAST_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_CAST_H_

#include "native/emulator/ascendc/common/mask.h"
#if __NPU_ARCH__ == 2002
#include "native/emulator/ascendc/m200/cast_modes.h"
#else
#include "native/emulator/ascendc/m300/cast_modes.h"
#endif

namespace hajax::ascendc {

using AscendC::RoundMode;

template <typename T, typename U>
struct Conversion {
  static constexpr bool exists = false;
};

#define HAJAX_MODE_NAME(mode, instruction) " " #mode
#define HAJAX_MODE_CASE(mode, instruction) case RoundMode::mode:
#define HAJAX_MODE_CALL(mode, instruction)                                                          \
  case RoundMode::mode:                                                                             \
    instruction(dst, src, repeats, p.dstBlkStride, p.srcBlkStride, p.dstRepStride, p.srcRepStride); \
    return;
#define HAJAX_CONVERSION(T, U, MODES)                                                \
  template <>                                                                        \
  struct Conversion<T, U> {                                                          \
    static constexpr bool exists = true;                                             \
    static constexpr const char* name = "Cast to " #T " from " #U;                   \
    static constexpr const char* modes = MODES(HAJAX_MODE_NAME);                     \
    static constexpr bool has(RoundMode mode) {                                      \
      switch (mode) {                                                                \
        MODES(HAJAX_MODE_CASE) return true;                                          \
        default:                                                                     \
          return false;                                                              \
      }                                                                              \
    }                                                                                \
    HAJAX_API static void run(T* dst, const U* src, RoundMode mode, int64_t repeats, \
                              const AscendC::UnaryRepeatParams& p) {                 \
      switch (mode) {                                                                \
        MODES(HAJAX_MODE_CALL)                                                       \
        default:                                                                     \
          return;                                                                    \
      }                                                                              \
    }                                                                                \
  };
HAJAX_CONVERSIONS(HAJAX_CONVERSION)
#undef HAJAX_CONVERSION
#undef HAJAX_MODE_CALL
#undef HAJAX_MODE_CASE
#undef HAJAX_MODE_NAME

// Never defined: a call that the optimiser cannot remove is an error of compilation.
__attribute__((error("AscendC::Cast: " HAJAX_CHIP " has no such rounding mode for these types"))) void
cast_has_no_such_mode();

template <typename T, typename U>
HAJAX_API void convert(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<U>& src, RoundMode mode,
                       int64_t repeats, const AscendC::UnaryRepeatParams& p) {
  using Pair = Conversion<T, U>;
  static_assert(Pair::exists, "AscendC::Cast: " HAJAX_CHIP ": emulated: " HAJAX_CAST_PAIRS);
  if constexpr (Pair::exists) {
    // A mode that is known at compile time is refused there, if the compiler optimises.
    if (__builtin_constant_p(mode) && !Pair::has(mode)) cast_has_no_such_mode();
    if (!Pair::has(mode)) {
      kernel_fault(Check::unsupported, Text() << Pair::name << ": roundMode: expected one of" << Pair::modes
                                              << ", got number " << static_cast<int>(mode));
    }
    Pair::run(pointer(dst), pointer(src), mode, repeats, p);
  }
}

// Lanes are those of the wider type.
template <typename T, typename U>
using Wider = std::conditional_t<(sizeof(T) > sizeof(U)), T, U>;

}  // namespace hajax::ascendc

namespace AscendC {

template <typename T, typename U, bool isSetMask = true>
HAJAX_API void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& roundMode,
                    const uint64_t mask[], int64_t repeatTime, const UnaryRepeatParams& repeatParams) {
  hajax::ascendc::use_mask<hajax::ascendc::Wider<T, U>, isSetMask>("Cast", mask);
  hajax::ascendc::convert(dst, src, roundMode, repeatTime, repeatParams);
}
template <typename T, typename U, bool isSetMask = true>
HAJAX_API void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& roundMode, uint64_t mask,
                    int64_t repeatTime, const UnaryRepeatParams& repeatParams) {
  hajax::ascendc::use_mask<hajax::ascendc::Wider<T, U>, isSetMask>("Cast", mask);
  hajax::ascendc::convert(dst, src, roundMode, repeatTime, repeatParams);
}
template <typename T, typename U>
HAJAX_API void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& roundMode, uint32_t count) {
  constexpr uint8_t kDst = sizeof(T) < sizeof(U) ? HALF_DEFAULT_REPEAT_STRIDE : DEFAULT_REPEAT_STRIDE;
  constexpr uint8_t kSrc = sizeof(U) < sizeof(T) ? HALF_DEFAULT_REPEAT_STRIDE : DEFAULT_REPEAT_STRIDE;
  hajax::ascendc::begin_count<hajax::ascendc::Wider<T, U>>("Cast", count);
  hajax::ascendc::convert(dst, src, roundMode, 1, UnaryRepeatParams(1, 1, kDst, kSrc));
  hajax::ascendc::end_count();
}

}  // namespace AscendC

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_CAST_H_
