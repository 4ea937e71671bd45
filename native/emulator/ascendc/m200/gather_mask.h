// GatherMask: keeps the elements whose bit is set, packed; the bits are a tensor, or one of six fixed patterns.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_M200_GATHER_MASK_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_M200_GATHER_MASK_H_

#include "native/emulator/ascendc/common/gather.h"

namespace hajax::ascendc {

// reduceMode: `mask` counts elements over all repeats; otherwise every repeat is used whole and `mask` means nothing.
template <typename T>
HAJAX_API void gather_mask(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src0,
                           const BitsOf<T>* bits, int64_t pattern, bool reduceMode, uint32_t mask,
                           const AscendC::GatherMaskParams& p, uint64_t& rsvdCnt) {
  static_assert(check_gather<T>(),
                "AscendC::GatherMask: on " HAJAX_CHIP " for half, int16_t, uint16_t, float, int32_t, uint32_t");
  if (reduceMode) {
    set_mask_count();
    set_vector_mask(0, mask);
  } else {
    set_mask_norm();
    set_vector_mask(FULL_MASK, FULL_MASK);
  }
  vreduce(reinterpret_cast<BitsOf<T>*>(pointer(dst)), reinterpret_cast<BitsOf<T>*>(pointer(src0)), bits, p.repeatTimes,
          1, p.src0BlockStride, pattern, AscendC::DEFAULT_REPEAT_STRIDE, p.src0RepeatStride, p.src1RepeatStride);
  rsvdCnt = static_cast<uint64_t>(get_rsvd_cnt());
  set_mask_norm();
}

template <AscendC::GatherMaskMode mode>
constexpr void check_gather_mode() {
  static_assert(mode == AscendC::GatherMaskMode::VERSION_V1,
                "AscendC::GatherMask: GatherMaskMode::VERSION_V2: not on " HAJAX_CHIP ": use the default");
}

}  // namespace hajax::ascendc

namespace AscendC {

template <typename T, typename U, GatherMaskMode mode = defaultGatherMaskMode>
HAJAX_API void GatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<U>& src1Pattern,
                          bool reduceMode, uint32_t mask, const GatherMaskParams& gatherMaskParams, uint64_t& rsvdCnt) {
  hajax::ascendc::check_gather_mode<mode>();
  static_assert(std::is_same_v<U, hajax::ascendc::BitsOf<T>>,
                "AscendC::GatherMask: src1Pattern: uint16_t with 16-bit elements, uint32_t with 32-bit elements");
  hajax::ascendc::gather_mask(dst, src0, hajax::ascendc::pointer(src1Pattern), 0, reduceMode, mask, gatherMaskParams,
                              rsvdCnt);
}

template <typename T, GatherMaskMode mode = defaultGatherMaskMode>
HAJAX_API void GatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src0, uint8_t src1Pattern, bool reduceMode,
                          uint32_t mask, const GatherMaskParams& gatherMaskParams, uint64_t& rsvdCnt) {
  hajax::ascendc::check_gather_mode<mode>();
  hajax::ascendc::expect_range("GatherMask", "src1Pattern", src1Pattern, 1, 6);
  // The operand for bits is not used, but has to lie in UB.
  hajax::ascendc::gather_mask(dst, src0,
                              reinterpret_cast<const hajax::ascendc::BitsOf<T>*>(hajax::ascendc::pointer(src0)),
                              src1Pattern, reduceMode, mask, gatherMaskParams, rsvdCnt);
}

// Elements that the last GatherMask has kept.
HAJAX_API int64_t GetGatherMaskRemainCount() { return get_rsvd_cnt(); }

}  // namespace AscendC

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_M200_GATHER_MASK_H_
