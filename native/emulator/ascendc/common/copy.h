// DataCopy of whole blocks of 32 bytes: between GM and UB, GM to L1, UB and L1, within UB.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_COPY_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_COPY_H_

#include "native/emulator/ascendc/common/params_copy.h"
#include "native/emulator/ascendc/common/refuse.h"
#include "native/emulator/ascendc/common/tensor.h"
#include "native/emulator/instructions/move.h"

namespace hajax::ascendc {

using AscendC::DataCopyParams;

[[noreturn]] HAJAX_API void no_path(Hardware from, Hardware to, const char* advice) {
  kernel_fault(Check::unsupported, Text() << "DataCopy: " HAJAX_CHIP " has no path from " << name_of(from) << " to "
                                          << name_of(to) << advice);
}

HAJAX_API void copy_in(void* dst, Hardware to, const void* src, const DataCopyParams& p) {
  if (to == Hardware::UB) {
    copy_gm_to_ubuf(dst, src, 0, p.blockCount, p.blockLen, p.srcGap, p.dstGap);
  } else if (to == Hardware::L1) {
    copy_gm_to_cbuf(dst, src, 0, p.blockCount, p.blockLen, p.srcGap, p.dstGap, PAD_NONE);
  } else {
    no_path(Hardware::GM, to, to == Hardware::L0C ? "" : ": use LoadData");
  }
}

HAJAX_API void copy_out(void* dst, const void* src, Hardware from, const DataCopyParams& p) {
  if (from == Hardware::UB) {
    copy_ubuf_to_gm(dst, src, 0, p.blockCount, p.blockLen, p.srcGap, p.dstGap);
  } else {
    no_path(from, Hardware::GM, ": go through UB");
  }
}

HAJAX_API void copy_within(void* dst, Hardware to, const void* src, Hardware from, const DataCopyParams& p) {
  if (from == Hardware::UB && to == Hardware::UB) {
    copy_ubuf_to_ubuf(dst, src, 0, p.blockCount, p.blockLen, p.srcGap, p.dstGap);
  } else if (from == Hardware::UB && to == Hardware::L1) {
    copy_ubuf_to_cbuf(dst, src, 0, p.blockCount, p.blockLen, p.srcGap, p.dstGap);
  } else if (from == Hardware::L1 && to == Hardware::UB) {
    copy_cbuf_to_ubuf(dst, src, 0, p.blockCount, p.blockLen, p.srcGap, p.dstGap);
  } else if (from == Hardware::L0C || to == Hardware::L0C) {
    no_path(from, to, " in this form: between CO1 and UB give DataCopyEnhancedParams with a blockMode");
  } else {
    no_path(from, to, ": fractals go to the cube by LoadData");
  }
}

// One run of `count` elements.
template <typename T>
HAJAX_API DataCopyParams whole_blocks(int64_t count) {
  const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
  expect_multiple("DataCopy", "bytes of the count", bytes, AscendC::ONE_BLK_SIZE,
                  "Pad GM and the tensor to whole blocks of 32 bytes");
  expect_range("DataCopy", "count in blocks of 32 bytes", bytes / AscendC::ONE_BLK_SIZE, 1, UINT16_MAX);
  return {1, static_cast<uint16_t>(bytes / AscendC::ONE_BLK_SIZE), 0, 0};
}

}  // namespace hajax::ascendc

namespace AscendC {

template <typename T>
HAJAX_API void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& repeatParams) {
  hajax::ascendc::copy_in(hajax::ascendc::pointer(dst), hajax::ascendc::hardware_of(dst), hajax::ascendc::pointer(src),
                          repeatParams);
}
template <typename T>
HAJAX_API void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& repeatParams) {
  hajax::ascendc::copy_out(hajax::ascendc::pointer(dst), hajax::ascendc::pointer(src), hajax::ascendc::hardware_of(src),
                           repeatParams);
}
template <typename T>
HAJAX_API void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& repeatParams) {
  hajax::ascendc::copy_within(hajax::ascendc::pointer(dst), hajax::ascendc::hardware_of(dst),
                              hajax::ascendc::pointer(src), hajax::ascendc::hardware_of(src), repeatParams);
}

template <typename T>
HAJAX_API void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, uint32_t count) {
  DataCopy(dst, src, hajax::ascendc::whole_blocks<T>(count));
}
template <typename T>
HAJAX_API void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, uint32_t count) {
  DataCopy(dst, src, hajax::ascendc::whole_blocks<T>(count));
}
template <typename T>
HAJAX_API void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint32_t count) {
  DataCopy(dst, src, hajax::ascendc::whole_blocks<T>(count));
}

// Between GM and a core's memory the further parameters mean nothing.
template <typename T>
HAJAX_API void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& intriParams,
                        const DataCopyEnhancedParams&) {
  DataCopy(dst, src, intriParams);
}
template <typename T>
HAJAX_API void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& intriParams,
                        const DataCopyEnhancedParams&) {
  DataCopy(dst, src, intriParams);
}

template <typename T, typename U>
void DataCopy(const LocalTensor<T>&, const LocalTensor<U>&, const DataCopyParams&) {
  static_assert(hajax::ascendc::never<T, U>,
                "AscendC::DataCopy: between tensors of different types (C1 to C2): " HAJAX_LACKING
                ": load a bias into L0C by BroadCastVecToMM, or add it in UB");
}
template <typename T>
void DataCopy(const LocalTensor<T>&, const LocalTensor<T>&, const Nd2NzParams&) {
  static_assert(hajax::ascendc::never<T>, "AscendC::DataCopy: UB to L1 with Nd2NzParams: not on " HAJAX_CHIP
                                          ": copy each column of 32 bytes by DataCopyParams");
}
template <typename T, typename U>
void DataCopy(const LocalTensor<T>&, const LocalTensor<U>&, const DataCopyCO12DstParams&) {
  static_assert(hajax::ascendc::never<T, U>, "AscendC::DataCopy: CO1 to L1 with DataCopyCO12DstParams: " HAJAX_LACKING
                                             ": CO1 to UB with DataCopyEnhancedParams, then UB to L1");
}
template <typename T, typename U>
void DataCopy(const GlobalTensor<T>&, const LocalTensor<U>&, const DataCopyCO12DstParams&) {
  static_assert(hajax::ascendc::never<T, U>, "AscendC::DataCopy: CO1 to GM with DataCopyCO12DstParams: " HAJAX_LACKING
                                             ": CO1 to UB with DataCopyEnhancedParams, then UB to GM");
}

}  // namespace AscendC

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_COPY_H_
