// The emulated part of Cast: destination, source, and the instruction of each rounding mode. 310B has more, among them
// everything with bf16.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_M300_CAST_MODES_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_M300_CAST_MODES_H_

#define HAJAX_HALF_TO_INT32(X)  \
  X(CAST_RINT, vconv_f162s32r)  \
  X(CAST_FLOOR, vconv_f162s32f) \
  X(CAST_CEIL, vconv_f162s32c)  \
  X(CAST_ROUND, vconv_f162s32a) \
  X(CAST_TRUNC, vconv_f162s32z)
#define HAJAX_HALF_TO_INT16(X)  \
  X(CAST_RINT, vconv_f162s16r)  \
  X(CAST_FLOOR, vconv_f162s16f) \
  X(CAST_CEIL, vconv_f162s16c)  \
  X(CAST_ROUND, vconv_f162s16a) \
  X(CAST_TRUNC, vconv_f162s16z)
#define HAJAX_FLOAT_TO_INT32(X) \
  X(CAST_RINT, vconv_f322s32r)  \
  X(CAST_FLOOR, vconv_f322s32f) \
  X(CAST_CEIL, vconv_f322s32c)  \
  X(CAST_ROUND, vconv_f322s32a) \
  X(CAST_TRUNC, vconv_f322s32z)
// This chip names rounding to nearest even CAST_RINT here.
#define HAJAX_FLOAT_TO_HALF(X) \
  X(CAST_NONE, vconv_f322f16)  \
  X(CAST_RINT, vconv_f322f16)  \
  X(CAST_ODD, vconv_f322f16o)
#define HAJAX_HALF_TO_FLOAT(X) X(CAST_NONE, vconv_f162f32)
#define HAJAX_INT8_TO_HALF(X) X(CAST_NONE, vconv_s82f16)
#define HAJAX_UINT8_TO_HALF(X) X(CAST_NONE, vconv_u82f16)
#define HAJAX_INT16_TO_HALF(X) X(CAST_NONE, vconv_s162f16)
#define HAJAX_INT32_TO_FLOAT(X) X(CAST_NONE, vconv_s322f32)

#define HAJAX_CONVERSIONS(C)              \
  C(int32_t, half, HAJAX_HALF_TO_INT32)   \
  C(int16_t, half, HAJAX_HALF_TO_INT16)   \
  C(float, half, HAJAX_HALF_TO_FLOAT)     \
  C(int32_t, float, HAJAX_FLOAT_TO_INT32) \
  C(half, float, HAJAX_FLOAT_TO_HALF)     \
  C(half, int8_t, HAJAX_INT8_TO_HALF)     \
  C(half, uint8_t, HAJAX_UINT8_TO_HALF)   \
  C(half, int16_t, HAJAX_INT16_TO_HALF)   \
  C(float, int32_t, HAJAX_INT32_TO_FLOAT)

#define HAJAX_CAST_PAIRS                                                                                          \
  "int32_t, int16_t or float from half; int32_t or half from float; half from int8_t, uint8_t or int16_t; float " \
  "from int32_t. The chip's others are not emulated yet"

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_M300_CAST_MODES_H_
