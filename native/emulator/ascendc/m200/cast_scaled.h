// Conversions with something more in the same instruction: a scale (SetDeqScale, CastDeq, AddDeqRelu), a product
// (MulCast), a sum or difference and a ReLU (AddReluCast, SubReluCast).
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_M200_CAST_SCALED_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_M200_CAST_SCALED_H_

#include "native/emulator/ascendc/common/cast.h"

namespace AscendC {

struct VdeqInfo {
  VdeqInfo() = default;
  VdeqInfo(const float scales[VDEQ_TENSOR_SIZE], const int16_t offsets[VDEQ_TENSOR_SIZE],
           const bool signs[VDEQ_TENSOR_SIZE]) {
    for (int i = 0; i < VDEQ_TENSOR_SIZE; ++i) {
      vdeqScale[i] = scales[i];
      vdeqOffset[i] = offsets[i];
      vdeqSignMode[i] = signs[i];
    }
  }

  float vdeqScale[VDEQ_TENSOR_SIZE] = {};
  int16_t vdeqOffset[VDEQ_TENSOR_SIZE] = {};
  bool vdeqSignMode[VDEQ_TENSOR_SIZE] = {};
};

}  // namespace AscendC

namespace hajax::ascendc {

// The scale's bits, 9 bits of offset, and whether results are signed.
inline uint64_t scale_config(float scale, int16_t offset, bool sign) {
  uint32_t bits = 0;
  __builtin_memcpy(&bits, &scale, sizeof(bits));
  return bits | (static_cast<uint64_t>(offset) & 0x1FF) << 37 | static_cast<uint64_t>(sign) << 46;
}

template <typename T, typename U, bool vector, bool upper>
HAJAX_API void convert_scaled(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<U>& src, int64_t repeats,
                              const AscendC::UnaryRepeatParams& p) {
  static_assert(AscendC::SupportType<T, int8_t, uint8_t>() && std::is_same_v<U, int16_t>,
                "AscendC::CastDeq: on " HAJAX_CHIP " int8_t or uint8_t from int16_t");
  if constexpr (vector) {
    vconv_vdeqs162b8(pointer(dst), pointer(src), repeats, p.dstBlkStride, p.srcBlkStride, p.dstRepStride,
                     p.srcRepStride, 0, 0, upper);
  } else {
    vconv_deqs162b8(pointer(dst), pointer(src), repeats, p.dstBlkStride, p.srcBlkStride, p.dstRepStride, p.srcRepStride,
                    0, 0, upper);
  }
}

#define HAJAX_OPERANDS                                                                                   \
  pointer(dst), pointer(src0), pointer(src1), repeats, p.dstBlkStride, p.src0BlkStride, p.src1BlkStride, \
      p.dstRepStride, p.src0RepStride, p.src1RepStride
#define HAJAX_CONVERTING(name)                                                                 \
  template <typename T, typename U>                                                            \
  HAJAX_API void name(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<U>& src0, \
                      const AscendC::LocalTensor<U>& src1, int64_t repeats, const AscendC::BinaryRepeatParams& p)

HAJAX_CONVERTING(add_relu_cast) {
  static_assert((std::is_same_v<T, int8_t> && AscendC::SupportType<U, half, int16_t>()) ||
                    (std::is_same_v<T, half> && std::is_same_v<U, float>),
                "AscendC::AddReluCast: on " HAJAX_CHIP " int8_t from half or int16_t, half from float");
  if constexpr (std::is_same_v<U, half>) vaddreluconv_f162s8(HAJAX_OPERANDS);
  if constexpr (std::is_same_v<U, float>) vaddreluconv_f322f16(HAJAX_OPERANDS);
  if constexpr (std::is_same_v<U, int16_t>) vaddreluconv_s162s8(HAJAX_OPERANDS);
}

HAJAX_CONVERTING(sub_relu_cast) {
  static_assert((std::is_same_v<T, int8_t> && AscendC::SupportType<U, half, int16_t>()) ||
                    (std::is_same_v<T, half> && std::is_same_v<U, float>),
                "AscendC::SubReluCast: on " HAJAX_CHIP " int8_t from half or int16_t, half from float");
  if constexpr (std::is_same_v<U, half>) vsubreluconv_f162s8(HAJAX_OPERANDS);
  if constexpr (std::is_same_v<U, float>) vsubreluconv_f322f16(HAJAX_OPERANDS);
  if constexpr (std::is_same_v<U, int16_t>) vsubreluconv_s162s8(HAJAX_OPERANDS);
}

HAJAX_CONVERTING(multiply_cast) {
  static_assert(AscendC::SupportType<T, int8_t, uint8_t>() && std::is_same_v<U, half>,
                "AscendC::MulCast: on " HAJAX_CHIP " int8_t or uint8_t from half");
  if constexpr (std::is_same_v<T, int8_t>) vmulconv_f162s8(HAJAX_OPERANDS);
  if constexpr (std::is_same_v<T, uint8_t>) vmulconv_f162u8(HAJAX_OPERANDS);
}

HAJAX_CONVERTING(add_scale_relu) {
  static_assert(std::is_same_v<T, half> && std::is_same_v<U, int32_t>,
                "AscendC::AddDeqRelu: on " HAJAX_CHIP " half from int32_t");
  vadddeqrelu(HAJAX_OPERANDS);
}
#undef HAJAX_CONVERTING
#undef HAJAX_OPERANDS

}  // namespace hajax::ascendc

namespace AscendC {

HAJAX_API void SetDeqScale(half scale) { set_deqscale(scale); }
HAJAX_API void SetDeqScale(float scale, int16_t offset, bool signMode) {
  hajax::ascendc::expect_range("SetDeqScale", "offset", offset, -256, 255);
  set_deqscale(hajax::ascendc::scale_config(scale, offset, signMode));
}
// Sixteen scales, written to UB by the scalar unit: the vector unit must be made to wait for it.
template <typename T>
HAJAX_API void SetDeqScale(const LocalTensor<T>& vdeq, const VdeqInfo& vdeqInfo) {
  static_assert(std::is_same_v<T, uint64_t>, "AscendC::SetDeqScale: vdeq: uint64_t");
  for (int i = 0; i < VDEQ_TENSOR_SIZE; ++i) {
    hajax::ascendc::expect_range("SetDeqScale", "vdeqOffset", vdeqInfo.vdeqOffset[i], -256, 255);
    vdeq.SetValue(static_cast<uint32_t>(i), hajax::ascendc::scale_config(vdeqInfo.vdeqScale[i], vdeqInfo.vdeqOffset[i],
                                                                         vdeqInfo.vdeqSignMode[i]));
  }
  set_deqscale(hajax::ascendc::ub_block(vdeq.GetPhyAddr()));
}

#define HAJAX_CAST_DEQ(Name)                                                                                           \
  template <typename T, typename U, bool isSetMask = true, bool isVecDeq = true, bool halfBlock = true>                \
  HAJAX_API void Name(const LocalTensor<T>& dst, const LocalTensor<U>& src, const uint64_t mask[], int64_t repeatTime, \
                      const UnaryRepeatParams& repeatParams) {                                                         \
    hajax::ascendc::use_mask<U, isSetMask>(#Name, mask);                                                               \
    hajax::ascendc::convert_scaled<T, U, isVecDeq, halfBlock>(dst, src, repeatTime, repeatParams);                     \
  }                                                                                                                    \
  template <typename T, typename U, bool isSetMask = true, bool isVecDeq = true, bool halfBlock = true>                \
  HAJAX_API void Name(const LocalTensor<T>& dst, const LocalTensor<U>& src, int32_t mask, int64_t repeatTime,          \
                      const UnaryRepeatParams& repeatParams) {                                                         \
    hajax::ascendc::use_mask<U, isSetMask>(#Name, static_cast<uint64_t>(mask));                                        \
    hajax::ascendc::convert_scaled<T, U, isVecDeq, halfBlock>(dst, src, repeatTime, repeatParams);                     \
  }                                                                                                                    \
  template <typename T, typename U, bool isVecDeq = true, bool halfBlock = true>                                       \
  HAJAX_API void Name(const LocalTensor<T>& dst, const LocalTensor<U>& src, uint32_t count) {                          \
    hajax::ascendc::begin_count<U>(#Name, count);                                                                      \
    hajax::ascendc::convert_scaled<T, U, isVecDeq, halfBlock>(dst, src, 1, UnaryRepeatParams());                       \
    hajax::ascendc::end_count();                                                                                       \
  }
HAJAX_CAST_DEQ(CastDeq)
HAJAX_CAST_DEQ(CastDequant)
#undef HAJAX_CAST_DEQ

#define HAJAX_BINARY_CAST(Name, function)                                                                       \
  template <typename T, typename U, bool isSetMask = true>                                                      \
  HAJAX_API void Name(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1,        \
                      uint64_t mask[], int64_t repeatTime, const BinaryRepeatParams& repeatParams) {            \
    hajax::ascendc::use_mask<U, isSetMask>(#Name, mask);                                                        \
    hajax::ascendc::function(dst, src0, src1, repeatTime, repeatParams);                                        \
  }                                                                                                             \
  template <typename T, typename U, bool isSetMask = true>                                                      \
  HAJAX_API void Name(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1,        \
                      uint64_t mask, int64_t repeatTime, const BinaryRepeatParams& repeatParams) {              \
    hajax::ascendc::use_mask<U, isSetMask>(#Name, mask);                                                        \
    hajax::ascendc::function(dst, src0, src1, repeatTime, repeatParams);                                        \
  }                                                                                                             \
  template <typename T, typename U>                                                                             \
  HAJAX_API void Name(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1,        \
                      uint32_t count) {                                                                         \
    hajax::ascendc::begin_count<U>(#Name, count);                                                               \
    hajax::ascendc::function(                                                                                   \
        dst, src0, src1, 1,                                                                                     \
        BinaryRepeatParams(1, 1, 1, HALF_DEFAULT_REPEAT_STRIDE, DEFAULT_REPEAT_STRIDE, DEFAULT_REPEAT_STRIDE)); \
    hajax::ascendc::end_count();                                                                                \
  }
HAJAX_BINARY_CAST(AddReluCast, add_relu_cast)
HAJAX_BINARY_CAST(SubReluCast, sub_relu_cast)
HAJAX_BINARY_CAST(MulCast, multiply_cast)
HAJAX_BINARY_CAST(AddDeqRelu, add_scale_relu)
#undef HAJAX_BINARY_CAST

}  // namespace AscendC

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_M200_CAST_SCALED_H_
