// Comparisons of repeats with strides, and the compare-mask register.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_M200_COMPARE_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_M200_COMPARE_H_

#include "native/emulator/ascendc/common/compare.h"

namespace AscendC {

// Bits into memory. This chip takes no mask here: all elements of a repeat are compared, whatever `mask` says.
template <typename T, typename U, bool isSetMask = true>
HAJAX_API void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
                       CMPMODE cmpMode, const uint64_t[], int64_t repeatTime, const BinaryRepeatParams& repeatParams) {
  hajax::ascendc::check_compare<T, U>();
  hajax::ascendc::compare("Compare", reinterpret_cast<uint8_t*>(hajax::ascendc::pointer(dst)),
                          hajax::ascendc::pointer(src0), hajax::ascendc::pointer(src1), cmpMode, repeatTime,
                          repeatParams);
}
template <typename T, typename U, bool isSetMask = true>
HAJAX_API void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
                       CMPMODE cmpMode, uint64_t, int64_t repeatTime, const BinaryRepeatParams& repeatParams) {
  Compare<T, U, isSetMask>(dst, src0, src1, cmpMode, MASK_PLACEHOLDER_LIST, repeatTime, repeatParams);
}

// One repeat, into the compare-mask register.
template <typename T, bool isSetMask = true>
HAJAX_API void Compare(const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE cmpMode, const uint64_t mask[],
                       const BinaryRepeatParams& repeatParams) {
  hajax::ascendc::check_compare<T, uint8_t>();
  hajax::ascendc::use_mask<T, isSetMask>("Compare", mask);
  hajax::ascendc::compare_to_register(hajax::ascendc::pointer(src0), hajax::ascendc::pointer(src1), cmpMode,
                                      repeatParams);
}
template <typename T, bool isSetMask = true>
HAJAX_API void Compare(const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE cmpMode, uint64_t mask,
                       const BinaryRepeatParams& repeatParams) {
  hajax::ascendc::check_compare<T, uint8_t>();
  hajax::ascendc::use_mask<T, isSetMask>("Compare", mask);
  hajax::ascendc::compare_to_register(hajax::ascendc::pointer(src0), hajax::ascendc::pointer(src1), cmpMode,
                                      repeatParams);
}

template <typename T>
HAJAX_API void SetCmpMask(const LocalTensor<T>& src) {
  set_cmpmask(hajax::ascendc::pointer(src));
}
template <typename T>
HAJAX_API void GetCmpMask(const LocalTensor<T>& dst) {
  get_cmpmask(hajax::ascendc::pointer(dst));
}

#define HAJAX_COMPARE_SCALAR(Name)                                                                                    \
  template <typename T, typename U, bool isSetMask = true>                                                            \
  HAJAX_API void Name(const LocalTensor<U>& dst, const LocalTensor<T>& src0, T src1Scalar, CMPMODE cmpMode,           \
                      const uint64_t[], int64_t repeatTime, const UnaryRepeatParams& repeatParams) {                  \
    hajax::ascendc::check_compare<T, U>();                                                                            \
    static_assert(std::is_same_v<U, uint8_t>, "AscendC::" #Name ": dst: uint8_t");                                    \
    hajax::ascendc::compare_scalar(#Name, hajax::ascendc::pointer(dst), hajax::ascendc::pointer(src0), src1Scalar,    \
                                   cmpMode, repeatTime, repeatParams);                                                \
  }                                                                                                                   \
  template <typename T, typename U, bool isSetMask = true>                                                            \
  HAJAX_API void Name(const LocalTensor<U>& dst, const LocalTensor<T>& src0, T src1Scalar, CMPMODE cmpMode, uint64_t, \
                      int64_t repeatTime, const UnaryRepeatParams& repeatParams) {                                    \
    Name<T, U, isSetMask>(dst, src0, src1Scalar, cmpMode, MASK_PLACEHOLDER_LIST, repeatTime, repeatParams);           \
  }
HAJAX_COMPARE_SCALAR(CompareScalar)
HAJAX_COMPARE_SCALAR(Compares)
#undef HAJAX_COMPARE_SCALAR

}  // namespace AscendC

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_M200_COMPARE_H_
