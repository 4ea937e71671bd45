// DataCopy between CO1 (L0C) and UB: matrices of fractals, or their first rows, with conversion, scale or ReLU on the
// way.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_M200_COPY_CUBE_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_M200_COPY_CUBE_H_

#include "native/emulator/ascendc/common/copy.h"
#include "native/emulator/ascendc/common/pipe.h"
#include "native/emulator/instructions/vector.h"

namespace hajax::ascendc {

using AscendC::BlockMode;
using AscendC::DataCopyEnhancedParams;
using AscendC::DeqScale;

[[noreturn]] HAJAX_API void bad_conversion(const char* what) {
  kernel_fault(Check::unsupported, Text() << "DataCopy from CO1 to UB: " << what);
}

// How elements change from L0C's type U to UB's type T.
template <typename T, typename U>
HAJAX_API ConvRelu_t result_mode(const DataCopyEnhancedParams& p) {
  const DeqScale scale = p.deqScale;
  if constexpr (std::is_same_v<T, half> && std::is_same_v<U, int32_t>) {
    switch (scale) {
      case DeqScale::DEQ:
        return CRMODE_S32toF16_NONE;
      case DeqScale::VDEQ:
        return CRMODE_S32toF16_DEQSCALE_SPR;
      case DeqScale::DEQ16:
        return CRMODE_DEQSCALE_DEQ16;
      case DeqScale::VDEQ16:
        return CRMODE_DEQSCALE_VDEQ16;
      default:
        bad_conversion("half from int32_t: deqScale: expected DEQ, VDEQ, DEQ16 or VDEQ16, got another");
    }
  } else if constexpr (std::is_same_v<U, int32_t> && sizeof(T) == 1) {
    if (scale == DeqScale::DEQ8) return CRMODE_DEQSCALE_DEQ8;
    if (scale == DeqScale::VDEQ8) return CRMODE_DEQSCALE_VDEQ8;
    bad_conversion("8 bits from int32_t: deqScale: expected DEQ8 or VDEQ8, got another");
  } else if constexpr (std::is_same_v<U, int32_t> && std::is_same_v<T, int16_t>) {
    if (scale == DeqScale::DEQ16) return CRMODE_DEQSCALE_DEQS16;
    if (scale == DeqScale::VDEQ16) return CRMODE_DEQSCALE_VDEQS16;
    bad_conversion("int16_t from int32_t: deqScale: expected DEQ16 or VDEQ16, got another");
  } else {
    if (std::is_same_v<U, half> && scale == DeqScale::DEQ) {
      if (p.isRelu) bad_conversion("half from half: isRelu: expected false with deqScale DEQ, got true");
      return CRMODE_F16_MUL;
    }
    if (scale != DeqScale::DEQ_NONE) bad_conversion("deqScale: expected DEQ_NONE for these types, got another");
    if (std::is_same_v<U, uint32_t> && p.isRelu) bad_conversion("uint32_t: isRelu: expected false, got true");
    if (std::is_same_v<T, half> && std::is_same_v<U, float>) {
      return p.isRelu ? CRMODE_F32toF16_RELU : CRMODE_F32toF16_NONE;
    }
    return p.isRelu ? CRMODE_NONE_RELU : CRMODE_NONE;
  }
}

// The scale, or where its vector lies, into the register that the copy reads.
template <typename T>
HAJAX_API void set_scale(const DataCopyEnhancedParams& p) {
  uint64_t value = 0;
  switch (p.deqScale) {
    case DeqScale::DEQ_NONE:
      return;
    case DeqScale::DEQ:
      value = p.deqValue;
      break;
    case DeqScale::DEQ8:
    case DeqScale::DEQ16:
      value =
          p.deqValue | static_cast<uint64_t>(p.isRelu) << 47 | static_cast<uint64_t>(std::is_same_v<T, int8_t>) << 46;
      break;
    default:
      value = ub_block(p.deqTensorAddr) | static_cast<uint64_t>(p.isRelu) << 15;
      break;
  }
  set_deqscale(value);
  order("DataCopy", HardEvent::S_V);
}

HAJAX_API bool is_matrix(BlockMode mode) {
  if (mode == BlockMode::BLOCK_MODE_MATRIX) return true;
  if (mode != BlockMode::BLOCK_MODE_VECTOR) {
    kernel_fault(Check::unsupported, Text() << "DataCopy between CO1 and UB: blockMode: " HAJAX_CHIP
                                               ": expected BLOCK_MODE_MATRIX or "
                                               "BLOCK_MODE_VECTOR, got number "
                                            << static_cast<int>(mode));
  }
  return false;
}

template <typename T, typename U>
HAJAX_API void copy_result(T* dst, U* src, const DataCopyParams& p, const DataCopyEnhancedParams& enhanced) {
  const ConvRelu_t mode = result_mode<T, U>(enhanced);
  const bool matrix = is_matrix(enhanced.blockMode);
  set_scale<T>(enhanced);
  if (matrix) {
    copy_matrix_cc_to_ubuf(dst, src, enhanced.sidStoreMode, p.blockCount, p.blockLen, p.srcGap, p.dstGap, mode);
  } else {
    copy_vector_cc_to_ubuf(dst, src, enhanced.sidStoreMode, p.blockCount, p.blockLen, p.srcGap, p.dstGap, mode);
  }
}

template <typename T, typename U>
HAJAX_API void copy_preset(T* dst, U* src, const DataCopyParams& p, const DataCopyEnhancedParams& enhanced) {
  constexpr ConvRelu_t kMode = std::is_same_v<T, U> ? CRMODE_NONE : CRMODE_F16toF32_NONE;
  if (is_matrix(enhanced.blockMode)) {
    copy_matrix_ubuf_to_cc(dst, src, enhanced.sidStoreMode, p.blockCount, p.blockLen, p.srcGap, p.dstGap, kMode);
  } else {
    copy_vector_ubuf_to_cc(dst, src, enhanced.sidStoreMode, p.blockCount, p.blockLen, p.srcGap, p.dstGap, kMode);
  }
}

}  // namespace hajax::ascendc

namespace AscendC {

template <typename T>
HAJAX_API void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& intriParams,
                        const DataCopyEnhancedParams& enhancedParams) {
  const Hardware to = hajax::ascendc::hardware_of(dst);
  const Hardware from = hajax::ascendc::hardware_of(src);
  if constexpr (SupportType<T, half, float, int32_t, uint32_t>()) {
    if (from == Hardware::L0C && to == Hardware::UB) {
      hajax::ascendc::copy_result(hajax::ascendc::pointer(dst), hajax::ascendc::pointer(src), intriParams,
                                  enhancedParams);
      return;
    }
    if (from == Hardware::UB && to == Hardware::L0C) {
      hajax::ascendc::copy_preset(hajax::ascendc::pointer(dst), hajax::ascendc::pointer(src), intriParams,
                                  enhancedParams);
      return;
    }
  }
  hajax::ascendc::copy_within(hajax::ascendc::pointer(dst), to, hajax::ascendc::pointer(src), from, intriParams);
}

template <typename T, typename U>
HAJAX_API void DataCopy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const DataCopyParams& intriParams,
                        const DataCopyEnhancedParams& enhancedParams) {
  constexpr bool kResult = (std::is_same_v<T, half> && SupportType<U, float, int32_t>()) ||
                           (SupportType<T, int8_t, uint8_t, int16_t>() && std::is_same_v<U, int32_t>);
  constexpr bool kPreset = std::is_same_v<T, float> && std::is_same_v<U, half>;
  static_assert(kResult || kPreset, "AscendC::DataCopy: on " HAJAX_CHIP
                                    " CO1 to UB: half from float, half, int16_t, int8_t or uint8_t from "
                                    "int32_t; UB to CO1: float from half");
  const Hardware to = hajax::ascendc::hardware_of(dst);
  const Hardware from = hajax::ascendc::hardware_of(src);
  if (from != (kResult ? Hardware::L0C : Hardware::UB) || to != (kResult ? Hardware::UB : Hardware::L0C)) {
    hajax::ascendc::no_path(from, to, " that converts these types");
  }
  if constexpr (kResult) {
    hajax::ascendc::copy_result(hajax::ascendc::pointer(dst), hajax::ascendc::pointer(src), intriParams,
                                enhancedParams);
  }
  if constexpr (kPreset) {
    hajax::ascendc::copy_preset(hajax::ascendc::pointer(dst), hajax::ascendc::pointer(src), intriParams,
                                enhancedParams);
  }
}

}  // namespace AscendC

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_M200_COPY_CUBE_H_
