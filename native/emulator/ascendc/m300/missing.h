// What 310P's API has and the emulated part of 310B's has not.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_M300_MISSING_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_M300_MISSING_H_

#include "native/emulator/ascendc/common/compare.h"
#include "native/emulator/ascendc/common/missing.h"
#include "native/emulator/ascendc/common/transpose.h"

namespace AscendC {

HAJAX_MISSING(void, SyncAll, "split the kernel in two launches")
HAJAX_MISSING(void, SetCmpMask, "compare into a tensor")
HAJAX_MISSING(void, GetCmpMask, "compare into a tensor")
HAJAX_MISSING(void, Brcb, "use Duplicate, or Gather")
HAJAX_MISSING(void, CastDeq, "use Muls, then Cast")
HAJAX_MISSING(void, CastDequant, "use Muls, then Cast")
HAJAX_MISSING(void, AddDeqRelu, "use Add, Cast, Muls and Relu")
HAJAX_NOT_EMULATED(void, SetDeqScale, "use Muls, then Cast")
HAJAX_NOT_EMULATED(void, MulCast, "use Mul, then Cast")
HAJAX_NOT_EMULATED(void, AddReluCast, "use AddRelu, then Cast")
HAJAX_NOT_EMULATED(void, SubReluCast, "use SubRelu, then Cast")
HAJAX_NOT_EMULATED(void, GatherMask, "use Gather")
HAJAX_NOT_EMULATED(int64_t, GetGatherMaskRemainCount, "use Gather")
HAJAX_NOT_EMULATED(void, Scatter, "write through the scalar unit")
HAJAX_NOT_EMULATED(void, BroadCastVecToMM, "add the bias in UB")
HAJAX_NOT_EMULATED(void, GetReduceMaxMinCount, "take it from dst of WholeReduceMax or WholeReduceMin")
HAJAX_NOT_EMULATED(void, GetReduceRepeatMaxMinSpr, "take it from dst of WholeReduceMax or WholeReduceMin")

#define HAJAX_STRIDED(Name, advice, Parameters, ...)                                                          \
  template <typename T, typename U, bool isSetMask = true>                                                    \
  void Name(__VA_ARGS__, CMPMODE, uint64_t, int64_t, const Parameters&) {                                     \
    static_assert(hajax::ascendc::never<T, U>, "AscendC::" #Name ": with a mask: not emulated yet: " advice); \
  }                                                                                                           \
  template <typename T, typename U, bool isSetMask = true>                                                    \
  void Name(__VA_ARGS__, CMPMODE, const uint64_t[], int64_t, const Parameters&) {                             \
    static_assert(hajax::ascendc::never<T, U>, "AscendC::" #Name ": with a mask: not emulated yet: " advice); \
  }
HAJAX_STRIDED(Compare, "give a count", BinaryRepeatParams, const LocalTensor<U>&, const LocalTensor<T>&,
              const LocalTensor<T>&)
HAJAX_STRIDED(CompareScalar, "give a count", UnaryRepeatParams, const LocalTensor<U>&, const LocalTensor<T>&, T)
HAJAX_STRIDED(Compares, "give a count", UnaryRepeatParams, const LocalTensor<U>&, const LocalTensor<T>&, T)
#undef HAJAX_STRIDED

template <typename T, bool isSetMask = true>
void Compare(const LocalTensor<T>&, const LocalTensor<T>&, CMPMODE, uint64_t, const BinaryRepeatParams&) {
  static_assert(hajax::ascendc::never<T>,
                "AscendC::Compare: into the register: not on " HAJAX_CHIP ": compare into a tensor");
}
template <typename T, bool isSetMask = true>
void Compare(const LocalTensor<T>&, const LocalTensor<T>&, CMPMODE, const uint64_t[], const BinaryRepeatParams&) {
  static_assert(hajax::ascendc::never<T>,
                "AscendC::Compare: into the register: not on " HAJAX_CHIP ": compare into a tensor");
}

#define HAJAX_SELECT_ADVICE "not emulated yet: multiply by 0 and 1, or select on 310P"
#define HAJAX_SELECT(...)                                                                         \
  template <typename T, typename U, bool isSetMask = true>                                        \
  void Select(const LocalTensor<T>&, const LocalTensor<U>&, const LocalTensor<T>&, __VA_ARGS__) { \
    static_assert(hajax::ascendc::never<T, U>, "AscendC::Select: " HAJAX_SELECT_ADVICE);          \
  }
HAJAX_SELECT(const LocalTensor<T>&, SELMODE, uint64_t, int64_t, const BinaryRepeatParams&)
HAJAX_SELECT(const LocalTensor<T>&, SELMODE, uint64_t[], int64_t, const BinaryRepeatParams&)
HAJAX_SELECT(const LocalTensor<T>&, SELMODE, uint32_t)
HAJAX_SELECT(T, SELMODE, uint64_t, int64_t, const BinaryRepeatParams&)
HAJAX_SELECT(T, SELMODE, uint64_t[], int64_t, const BinaryRepeatParams&)
HAJAX_SELECT(T, SELMODE, uint32_t)
HAJAX_SELECT(int64_t, const BinaryRepeatParams&)
#undef HAJAX_SELECT
#undef HAJAX_SELECT_ADVICE

#define HAJAX_COPY(text, ...)                                                                                \
  template <typename T>                                                                                      \
  void DataCopy(__VA_ARGS__) {                                                                               \
    static_assert(hajax::ascendc::never<T>, "AscendC::DataCopy: " text ": not emulated yet on " HAJAX_CHIP); \
  }
HAJAX_COPY("with Nd2NzParams", const LocalTensor<T>&, const GlobalTensor<T>&, const Nd2NzParams&)
HAJAX_COPY("with Nz2NdParamsFull", const GlobalTensor<T>&, const LocalTensor<T>&, const Nz2NdParamsFull&)
HAJAX_COPY("with SliceInfo", const LocalTensor<T>&, const GlobalTensor<T>&, const SliceInfo[], const SliceInfo[],
           uint32_t = 1)
HAJAX_COPY("with SliceInfo", const GlobalTensor<T>&, const LocalTensor<T>&, const SliceInfo[], const SliceInfo[],
           uint32_t = 1)
#undef HAJAX_COPY
template <typename T, typename U>
void DataCopy(const LocalTensor<T>&, const LocalTensor<U>&, const DataCopyParams&, const DataCopyEnhancedParams&) {
  static_assert(hajax::ascendc::never<T, U>, "AscendC::DataCopy: between CO1 and UB: not on " HAJAX_CHIP
                                             ", whose results leave through fixpipe, which is not emulated yet");
}

template <typename T>
void Transpose(const LocalTensor<T>&, const LocalTensor<T>&, const LocalTensor<uint8_t>&, const TransposeParamsExt&) {
  static_assert(hajax::ascendc::never<T>,
                "AscendC::Transpose: with TransposeParamsExt: not emulated yet on " HAJAX_CHIP);
}

}  // namespace AscendC

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_M300_MISSING_H_
