// The cube: LoadData of fractals, Mmad, Fill (InitConstValue), BroadCastVecToMM.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_CUBE_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_CUBE_H_

#include "native/emulator/ascendc/common/params_cube.h"
#include "native/emulator/ascendc/common/refuse.h"
#include "native/emulator/ascendc/common/tensor.h"
#include "native/emulator/instructions/cube.h"
#include "native/emulator/instructions/move.h"

namespace hajax::ascendc {

using AscendC::LoadData2DParams;

[[noreturn]] HAJAX_API void no_load(const char* api, const char* from, Hardware to, const char* expected) {
  kernel_fault(Check::unsupported, Text() << api << ": " HAJAX_CHIP ": from " << from << ": expected " << expected
                                          << ", got " << name_of(to));
}

// The type by which the load's instruction knows T's bits.
template <typename T>
constexpr auto load_type() {
#if __NPU_ARCH__ == 2002
  static_assert(AscendC::SupportType<T, half, int16_t, uint16_t, int8_t, uint8_t>(),
                "AscendC::LoadData: on " HAJAX_CHIP " for half, int16_t, uint16_t, int8_t, uint8_t");
  if constexpr (sizeof(T) == 2) {
    return half();
  } else {
    return T();
  }
#else
  static_assert(AscendC::SupportType<T, half, int16_t, uint16_t, int8_t, uint8_t, float, int32_t, uint32_t>(),
                "AscendC::LoadData: on " HAJAX_CHIP " for integers of 8 to 32 bits, half, float");
  return T();
#endif
}

template <typename T>
HAJAX_API void load_fractals(T* dst, Hardware to, T* src, const LoadData2DParams& p) {
  if (p.addrMode != 0) {
    kernel_fault(Check::unsupported,
                 "LoadData from L1: addrMode: expected 0, got another: only loads from GM count down");
  }
#if __NPU_ARCH__ == 2002
  if (to == Hardware::L0A) {
    load_cbuf_to_ca(dst, src, p.startIndex, p.repeatTimes, p.srcStride, p.dstGap, p.sid, p.ifTranspose, inc);
  } else if (to == Hardware::L0B) {
    load_cbuf_to_cb(dst, src, p.startIndex, p.repeatTimes, p.srcStride, p.dstGap, p.sid, p.ifTranspose, inc);
  }
#else
  if (to == Hardware::L0A) {
    load_cbuf_to_ca(dst, src, p.startIndex, p.repeatTimes, p.srcStride, p.dstGap, p.ifTranspose, inc);
  } else if (to == Hardware::L0B) {
    load_cbuf_to_cb(dst, src, p.startIndex, p.repeatTimes, p.srcStride, p.dstGap, p.ifTranspose, inc);
  }
#endif
  if (to != Hardware::L0A && to != Hardware::L0B) no_load("LoadData", "L1", to, "L0A or L0B");
}

template <typename T>
HAJAX_API void load_from_gm(T* dst, Hardware to, T* src, const LoadData2DParams& p) {
  if (p.ifTranspose) {
    kernel_fault(Check::unsupported,
                 "LoadData from GM: ifTranspose: expected false, got true: only loads from L1 transpose");
  }
  if (p.addrMode > 1 || (p.addrMode != 0 && to != Hardware::L1)) {
    kernel_fault(Check::unsupported, "LoadData from GM: addrMode: expected 0, or to L1 0 or 1, got another");
  }
  const addr_cal_mode_t mode = p.addrMode == 0 ? inc : dec;
  if (to == Hardware::L1) {
    load_gm_to_cbuf(dst, src, p.startIndex, p.repeatTimes, p.srcStride, p.dstGap, p.sid, mode);
  } else if (to == Hardware::L0A) {
    load_gm_to_ca(dst, src, p.startIndex, p.repeatTimes, p.srcStride, p.dstGap, p.sid, mode);
  } else if (to == Hardware::L0B) {
    load_gm_to_cb(dst, src, p.startIndex, p.repeatTimes, p.srcStride, p.dstGap, p.sid, mode);
  } else {
    no_load("LoadData", "GM", to, "L1, L0A or L0B");
  }
}

template <typename C, typename A, typename B, typename X, typename Y, typename Z>
inline constexpr bool are = std::is_same_v<C, X> && std::is_same_v<A, Y> && std::is_same_v<B, Z>;

template <typename C, typename A, typename B>
constexpr void check_product() {
#if __NPU_ARCH__ == 2002
  static_assert(are<C, A, B, float, half, half> || are<C, A, B, half, half, half> ||
                    are<C, A, B, int32_t, int8_t, int8_t> || are<C, A, B, int32_t, uint8_t, int8_t> ||
                    are<C, A, B, int32_t, uint8_t, uint8_t>,
                "AscendC::Mmad: on " HAJAX_CHIP
                " float or half from half and half; int32_t from int8_t and int8_t, uint8_t "
                "and int8_t, uint8_t and uint8_t");
#else
  static_assert(
      are<C, A, B, float, half, half> || are<C, A, B, float, float, float> || are<C, A, B, int32_t, int8_t, int8_t>,
      "AscendC::Mmad: on " HAJAX_CHIP " emulated: float from half or float, int32_t from int8_t");
#endif
}

HAJAX_API void check_product_params(const AscendC::MmadParams& p) {
  const auto must_not = [](bool given, const char* what) {
    if (!given) return;
    kernel_fault(Check::unsupported, Text() << "Mmad: " << what
                                            << ": " HAJAX_CHIP
                                               ": expected 0 (not there, or not emulated yet), got another value");
  };
  must_not(p.unitFlag != 0, "unitFlag");
  must_not(p.cmatrixSource, "cmatrixSource");
  must_not(p.kDirectionAlign, "kDirectionAlign");
  must_not(p.fmOffset != 0, "fmOffset");
  must_not(p.enSsparse, "enSsparse");
  must_not(p.enWinogradA || p.enWinogradB, "enWinogradA and enWinogradB");
}

}  // namespace hajax::ascendc

namespace AscendC {

template <typename T>
HAJAX_API void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LoadData2DParams& loadDataParams) {
  using U = decltype(hajax::ascendc::load_type<T>());
  const Hardware from = hajax::ascendc::hardware_of(src);
  if (from != Hardware::L1) hajax::ascendc::no_load("LoadData", "a local tensor", from, "src in L1");
  hajax::ascendc::load_fractals(reinterpret_cast<U*>(hajax::ascendc::pointer(dst)), hajax::ascendc::hardware_of(dst),
                                reinterpret_cast<U*>(hajax::ascendc::pointer(src)), loadDataParams);
}
template <typename T>
HAJAX_API void LoadData(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const LoadData2DParams& loadDataParams) {
  using U = decltype(hajax::ascendc::load_type<T>());
  hajax::ascendc::load_from_gm(reinterpret_cast<U*>(hajax::ascendc::pointer(dst)), hajax::ascendc::hardware_of(dst),
                               reinterpret_cast<U*>(hajax::ascendc::pointer(src)), loadDataParams);
}
template <typename T>
void LoadData(const LocalTensor<T>&, const LocalTensor<T>&, const LoadData2DParamsV2&) {
  static_assert(hajax::ascendc::never<T>,
                "AscendC::LoadData with LoadData2DParamsV2: " HAJAX_LACKING ": use LoadData2DParams");
}
template <typename T>
void LoadData(const LocalTensor<T>&, const GlobalTensor<T>&, const LoadData2DParamsV2&) {
  static_assert(hajax::ascendc::never<T>,
                "AscendC::LoadData with LoadData2DParamsV2: " HAJAX_LACKING ": use LoadData2DParams");
}

// dst = fm * filter, or dst += fm * filter without cmatrixInitVal or with isBias.
template <typename T, typename U, typename S>
HAJAX_API void Mmad(const LocalTensor<T>& dst, const LocalTensor<U>& fm, const LocalTensor<S>& filter,
                    const MmadParams& mmadParams) {
  hajax::ascendc::check_product<T, U, S>();
  hajax::ascendc::check_product_params(mmadParams);
  const MmadParams& p = mmadParams;
  const bool overwrite = p.cmatrixInitVal && !p.isBias;
#if __NPU_ARCH__ == 2002
  mad(hajax::ascendc::pointer(dst), hajax::ascendc::pointer(fm), hajax::ascendc::pointer(filter), p.m, p.k, p.n,
      overwrite);
#else
  mad(hajax::ascendc::pointer(dst), hajax::ascendc::pointer(fm), hajax::ascendc::pointer(filter), p.m, p.k, p.n,
      p.unitFlag, p.kDirectionAlign, p.cmatrixSource, overwrite);
#endif
}
template <typename T, typename U, typename S, typename V>
void Mmad(const LocalTensor<T>&, const LocalTensor<U>&, const LocalTensor<S>&, const LocalTensor<V>&,
          const MmadParams&) {
  static_assert(hajax::ascendc::never<T>,
                "AscendC::Mmad with a bias tensor: " HAJAX_LACKING
                ": put the bias into dst by BroadCastVecToMM, then Mmad without cmatrixInitVal");
}

#if __NPU_ARCH__ == 2002
template <typename T, typename U>
HAJAX_API void BroadCastVecToMM(const LocalTensor<T>& dst, const LocalTensor<U>& src, int32_t blockCount,
                                uint8_t blockLen, uint8_t srcGap, uint8_t dstGap) {
  static_assert(SupportType<T, half, float, int32_t>() && std::is_same_v<T, U>,
                "AscendC::BroadCastVecToMM: on " HAJAX_CHIP " for half, float, int32_t, the same type on both sides");
  broadcast_ub_to_cc(hajax::ascendc::pointer(dst), hajax::ascendc::pointer(src), blockCount, blockLen, srcGap, dstGap);
}
#endif

}  // namespace AscendC

namespace hajax::ascendc {

#if __NPU_ARCH__ == 2002
// 310P fills whole fractals one after the other, with a value of 16 bits.
template <typename T>
HAJAX_API void fill(T* dst, Hardware to, const AscendC::InitConstValueParams<T>& p) {
  static_assert(AscendC::SupportType<T, half, int16_t, uint16_t>(),
                "AscendC::Fill: on " HAJAX_CHIP " for half, int16_t, uint16_t");
  expect_range("Fill", "repeatTimes, fractals of 512 bytes", p.repeatTimes, 0, AscendC::MAX_REPEAT_TIMES);
  if (p.blockNum > 1 || p.dstGap != 0) {
    kernel_fault(Check::unsupported, "Fill: blockNum and dstGap: " HAJAX_CHIP
                                     ": expected 0, got another value: fractals "
                                     "follow each other; call Fill for each group");
  }
  half value;
  __builtin_memcpy(static_cast<void*>(&value), static_cast<const void*>(&p.initValue), sizeof(value));
  const int64_t config = p.repeatTimes;
#else
template <typename T>
HAJAX_API void fill(T* dst, Hardware to, const AscendC::InitConstValueParams<T>& p) {
  static_assert(AscendC::SupportType<T, half, float, int32_t, uint32_t>(),
                "AscendC::Fill: on " HAJAX_CHIP " emulated for half, float, int32_t, uint32_t");
  expect_range("Fill", "repeatTimes", p.repeatTimes, 0, INT16_MAX);
  expect_range("Fill", "blockNum", p.blockNum, 0, INT16_MAX);
  std::conditional_t<sizeof(T) == 2, half, uint32_t> value;
  __builtin_memcpy(static_cast<void*>(&value), static_cast<const void*>(&p.initValue), sizeof(value));
  const int64_t config = p.repeatTimes | int64_t{p.blockNum} << 16 | int64_t{p.dstGap} << 32;
#endif
  if (to == Hardware::L1) {
    create_cbuf_matrix(dst, config, value);
  } else if (to == Hardware::L0A) {
    create_ca_matrix(dst, config, value);
  } else if (to == Hardware::L0B) {
    create_cb_matrix(dst, config, value);
  } else {
    no_load("Fill", "a constant", to, "L1, L0A or L0B");
  }
}

}  // namespace hajax::ascendc

namespace AscendC {

template <typename T, typename U = T>
HAJAX_API void Fill(const LocalTensor<T>& dst, const InitConstValueParams<U>& initConstValueParams) {
  static_assert(std::is_same_v<T, U>, "AscendC::Fill: initValue has the type of dst's elements");
  hajax::ascendc::fill(hajax::ascendc::pointer(dst), hajax::ascendc::hardware_of(dst), initConstValueParams);
}
template <typename T, typename U = T>
HAJAX_API void InitConstValue(const LocalTensor<T>& dst, const InitConstValueParams<U>& initConstValueParams) {
  Fill(dst, initConstValueParams);
}

}  // namespace AscendC

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_CUBE_H_
