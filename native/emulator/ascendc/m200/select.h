// Select: elements of src0 where a bit is 1, of src1 or a scalar elsewhere. The bits lie in the compare-mask register
// or in UB; in the latter case the register holds the scalar, or the address of the bits, and passes through the
// reserve of UB.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_M200_SELECT_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_M200_SELECT_H_

#include "native/emulator/ascendc/common/mask.h"
#include "native/emulator/ascendc/m200/reserve.h"

namespace hajax::ascendc {

using AscendC::SELMODE;

template <typename T, typename U>
constexpr void check_select() {
  static_assert(AscendC::SupportType<T, half, float>(), "AscendC::Select: on " HAJAX_CHIP " for half, float");
  static_assert(AscendC::SupportType<U, uint8_t, uint16_t, uint32_t, uint64_t>(),
                "AscendC::Select: selMask: uint8_t, uint16_t, uint32_t or uint64_t");
}

// The register's 16 bytes all hold `value`. In counter mode the mask counts elements.
template <typename T>
HAJAX_API void fill_compare_mask(T value, bool counting) {
  const Reserve reserve;
  T* temporary = reserve.at<T>(0);
  if (counting) {
    set_vector_mask(0, AscendC::ONE_BLK_SIZE);
  } else {
    set_first_lanes(AscendC::ONE_BLK_SIZE);
  }
  vector_dup(temporary, value, 1, AscendC::DEFAULT_BLK_STRIDE, 1, AscendC::DEFAULT_REPEAT_STRIDE, 0);
  pipe_barrier(PIPE_V);
  set_cmpmask(temporary);
  pipe_barrier(PIPE_V);
}

// What stands in the register before a Select between two tensors.
template <typename U>
HAJAX_API void prepare_select(const AscendC::LocalTensor<U>& bits, SELMODE mode, bool counting) {
  if (mode == SELMODE::VSEL_CMPMASK_SPR) {
    set_cmpmask(pointer(bits));
    pipe_barrier(PIPE_V);
    return;
  }
  if (mode != SELMODE::VSEL_TENSOR_TENSOR_MODE) {
    kernel_fault(Check::unsupported,
                 "Select: selMode: expected VSEL_CMPMASK_SPR or VSEL_TENSOR_TENSOR_MODE with two tensors, got "
                 "VSEL_TENSOR_SCALAR_MODE, which takes a scalar for src1");
  }
  fill_compare_mask(ub_address(bits), counting);
}

HAJAX_API void expect_scalar_mode(SELMODE mode) {
  if (mode == SELMODE::VSEL_TENSOR_SCALAR_MODE) return;
  kernel_fault(Check::unsupported,
               "Select: selMode: expected VSEL_TENSOR_SCALAR_MODE with a scalar for src1, got another");
}

template <typename T, typename Third>
HAJAX_API void select(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src0,
                      const AscendC::LocalTensor<Third>& third, SELMODE mode, int64_t repeats,
                      const AscendC::BinaryRepeatParams& p) {
  vsel(pointer(dst), pointer(src0), pointer(third), repeats, p.dstBlkStride, p.src0BlkStride, p.src1BlkStride,
       p.dstRepStride, p.src0RepStride, p.src1RepStride, static_cast<int64_t>(mode));
}

}  // namespace hajax::ascendc

namespace AscendC {

template <typename T, typename U, bool isSetMask = true>
HAJAX_API void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
                      const LocalTensor<T>& src1, SELMODE selMode, uint64_t mask[], int64_t repeatTime,
                      const BinaryRepeatParams& repeatParams) {
  hajax::ascendc::check_select<T, U>();
  hajax::ascendc::prepare_select(selMask, selMode, false);
  hajax::ascendc::use_mask<T, isSetMask>("Select", mask);
  hajax::ascendc::select(dst, src0, src1, selMode, repeatTime, repeatParams);
}
template <typename T, typename U, bool isSetMask = true>
HAJAX_API void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
                      const LocalTensor<T>& src1, SELMODE selMode, uint64_t mask, int64_t repeatTime,
                      const BinaryRepeatParams& repeatParams) {
  hajax::ascendc::check_select<T, U>();
  hajax::ascendc::prepare_select(selMask, selMode, false);
  hajax::ascendc::use_mask<T, isSetMask>("Select", mask);
  hajax::ascendc::select(dst, src0, src1, selMode, repeatTime, repeatParams);
}
template <typename T, typename U>
HAJAX_API void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
                      const LocalTensor<T>& src1, SELMODE selMode, uint32_t count) {
  hajax::ascendc::check_select<T, U>();
  set_mask_count();
  hajax::ascendc::prepare_select(selMask, selMode, true);
  hajax::ascendc::set_count<T>("Select", count);
  hajax::ascendc::select(dst, src0, src1, selMode, 1, BinaryRepeatParams());
  pipe_barrier(PIPE_V);
  hajax::ascendc::end_count();
}

template <typename T, typename U, bool isSetMask = true>
HAJAX_API void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, T src1,
                      SELMODE selMode, uint64_t mask[], int64_t repeatTime, const BinaryRepeatParams& repeatParams) {
  hajax::ascendc::check_select<T, U>();
  hajax::ascendc::expect_scalar_mode(selMode);
  hajax::ascendc::fill_compare_mask(src1, false);
  hajax::ascendc::use_mask<T, isSetMask>("Select", mask);
  hajax::ascendc::select(dst, src0, selMask, selMode, repeatTime, repeatParams);
}
template <typename T, typename U, bool isSetMask = true>
HAJAX_API void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, T src1,
                      SELMODE selMode, uint64_t mask, int64_t repeatTime, const BinaryRepeatParams& repeatParams) {
  hajax::ascendc::check_select<T, U>();
  hajax::ascendc::expect_scalar_mode(selMode);
  hajax::ascendc::fill_compare_mask(src1, false);
  hajax::ascendc::use_mask<T, isSetMask>("Select", mask);
  hajax::ascendc::select(dst, src0, selMask, selMode, repeatTime, repeatParams);
}
template <typename T, typename U>
HAJAX_API void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, T src1,
                      SELMODE selMode, uint32_t count) {
  hajax::ascendc::check_select<T, U>();
  hajax::ascendc::expect_scalar_mode(selMode);
  set_mask_count();
  hajax::ascendc::fill_compare_mask(src1, true);
  hajax::ascendc::set_count<T>("Select", count);
  hajax::ascendc::select(dst, src0, selMask, selMode, 1, BinaryRepeatParams());
  pipe_barrier(PIPE_V);
  hajax::ascendc::end_count();
}

// With the register and the mask as the kernel has set them.
template <typename T, SELMODE selMode>
HAJAX_API void Select(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
                      int64_t repeatTime, const BinaryRepeatParams& repeatParams) {
  hajax::ascendc::check_select<T, uint8_t>();
  static_assert(selMode != SELMODE::VSEL_TENSOR_SCALAR_MODE,
                "AscendC::Select: VSEL_TENSOR_SCALAR_MODE: use Select(dst, selMask, src0, repeatTime, repeatParams)");
  hajax::ascendc::select(dst, src0, src1, selMode, repeatTime, repeatParams);
}
template <typename T, typename U>
HAJAX_API void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
                      int64_t repeatTime, const BinaryRepeatParams& repeatParams) {
  hajax::ascendc::check_select<T, U>();
  hajax::ascendc::select(dst, src0, selMask, SELMODE::VSEL_TENSOR_SCALAR_MODE, repeatTime, repeatParams);
}

}  // namespace AscendC

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_M200_SELECT_H_
