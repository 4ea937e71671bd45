// The conversions that Cast has: destination, source, and the instruction of each rounding mode.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_M200_CAST_MODES_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_M200_CAST_MODES_H_

#define HAJAX_HALF_TO_INT32(X)  \
  X(CAST_RINT, vconv_f162s32r)  \
  X(CAST_FLOOR, vconv_f162s32f) \
  X(CAST_CEIL, vconv_f162s32c)  \
  X(CAST_ROUND, vconv_f162s32a) \
  X(CAST_TRUNC, vconv_f162s32z)
#define HAJAX_HALF_TO_INT16(X) X(CAST_RINT, vconv_f162s16r)
#define HAJAX_HALF_TO_INT8(X)  \
  X(CAST_NONE, vconv_f162s8)   \
  X(CAST_FLOOR, vconv_f162s8f) \
  X(CAST_CEIL, vconv_f162s8c)  \
  X(CAST_ROUND, vconv_f162s8a) \
  X(CAST_TRUNC, vconv_f162s8z)
#define HAJAX_HALF_TO_UINT8(X) \
  X(CAST_NONE, vconv_f162u8)   \
  X(CAST_FLOOR, vconv_f162u8f) \
  X(CAST_CEIL, vconv_f162u8c)  \
  X(CAST_ROUND, vconv_f162u8a) \
  X(CAST_TRUNC, vconv_f162u8z)
#define HAJAX_FLOAT_TO_INT32(X) \
  X(CAST_RINT, vconv_f322s32r)  \
  X(CAST_FLOOR, vconv_f322s32f) \
  X(CAST_CEIL, vconv_f322s32c)  \
  X(CAST_ROUND, vconv_f322s32a) \
  X(CAST_TRUNC, vconv_f322s32z)
#define HAJAX_FLOAT_TO_HALF(X) \
  X(CAST_NONE, vconv_f322f16)  \
  X(CAST_ODD, vconv_f322f16o)
#define HAJAX_HALF_TO_FLOAT(X) X(CAST_NONE, vconv_f162f32)
#define HAJAX_INT8_TO_HALF(X) X(CAST_NONE, vconv_s82f16)
#define HAJAX_UINT8_TO_HALF(X) X(CAST_NONE, vconv_u82f16)
#define HAJAX_INT16_TO_HALF(X) X(CAST_NONE, vconv_s162f16)
#define HAJAX_INT32_TO_FLOAT(X) X(CAST_NONE, vconv_s322f32)
#define HAJAX_INT32_TO_INT16(X) X(CAST_NONE, vcbd_s322s16)
// Scaled by SetDeqScale; the mode means nothing.
#define HAJAX_INT32_TO_HALF(X) \
  X(CAST_NONE, vconv_deq)      \
  X(CAST_RINT, vconv_deq)      \
  X(CAST_FLOOR, vconv_deq)     \
  X(CAST_CEIL, vconv_deq)      \
  X(CAST_ROUND, vconv_deq)     \
  X(CAST_TRUNC, vconv_deq)     \
  X(CAST_ODD, vconv_deq)

#define HAJAX_CONVERSIONS(C)              \
  C(int32_t, half, HAJAX_HALF_TO_INT32)   \
  C(int16_t, half, HAJAX_HALF_TO_INT16)   \
  C(int8_t, half, HAJAX_HALF_TO_INT8)     \
  C(uint8_t, half, HAJAX_HALF_TO_UINT8)   \
  C(float, half, HAJAX_HALF_TO_FLOAT)     \
  C(int32_t, float, HAJAX_FLOAT_TO_INT32) \
  C(half, float, HAJAX_FLOAT_TO_HALF)     \
  C(half, int8_t, HAJAX_INT8_TO_HALF)     \
  C(half, uint8_t, HAJAX_UINT8_TO_HALF)   \
  C(half, int16_t, HAJAX_INT16_TO_HALF)   \
  C(half, int32_t, HAJAX_INT32_TO_HALF)   \
  C(float, int32_t, HAJAX_INT32_TO_FLOAT) \
  C(int16_t, int32_t, HAJAX_INT32_TO_INT16)

#define HAJAX_CAST_PAIRS                                                                                          \
  "int32_t, int16_t, int8_t, uint8_t or float from half; int32_t or half from float; half from int8_t, uint8_t, " \
  "int16_t or int32_t; float or int16_t from int32_t. Others go in two steps"

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_M200_CAST_MODES_H_
