// The vector instructions as lists, one row an overload, for prototypes, definitions and tests.
//
// Rows: X(function, instruction of instructions.def, destination type, source type). A function name with a suffix
// (vconv_f162f32) is one form of its instruction.
#ifndef HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_VECTOR_LIST_H_
#define HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_VECTOR_LIST_H_

// dst, src0, src1, repeat, block strides (dst, src0, src1), repeat strides (dst, src0, src1). Block and repeat strides
// are 8 bits wide. The forms that the chip's headers call with further arguments take zeros there.
#define HAJAX_VECTOR_BINARY(X)                          \
  X(vadd, vadd, half, half)                             \
  X(vadd, vadd, float, float)                           \
  X(vadd, vadd, int16_t, int16_t)                       \
  X(vadd, vadd, int32_t, int32_t)                       \
  X(vsub, vsub, half, half)                             \
  X(vsub, vsub, float, float)                           \
  X(vsub, vsub, int16_t, int16_t)                       \
  X(vsub, vsub, int32_t, int32_t)                       \
  X(vmul, vmul, half, half)                             \
  X(vmul, vmul, float, float)                           \
  X(vmul, vmul, int16_t, int16_t)                       \
  X(vmul, vmul, int32_t, int32_t)                       \
  X(vdiv, vdiv, half, half)                             \
  X(vdiv, vdiv, float, float)                           \
  X(vmax, vmax, half, half)                             \
  X(vmax, vmax, float, float)                           \
  X(vmax, vmax, int16_t, int16_t)                       \
  X(vmax, vmax, int32_t, int32_t)                       \
  X(vmin, vmin, half, half)                             \
  X(vmin, vmin, float, float)                           \
  X(vmin, vmin, int16_t, int16_t)                       \
  X(vmin, vmin, int32_t, int32_t)                       \
  X(vand, vand, int16_t, int16_t)                       \
  X(vand, vand, uint16_t, uint16_t)                     \
  X(vor, vor, int16_t, int16_t)                         \
  X(vor, vor, uint16_t, uint16_t)                       \
  X(vaddrelu, vaddrelu, half, half)                     \
  X(vaddrelu, vaddrelu, float, float)                   \
  X(vaddrelu, vaddrelu, int16_t, int16_t)               \
  X(vsubrelu, vsubrelu, half, half)                     \
  X(vsubrelu, vsubrelu, float, float)                   \
  X(vsubrelu, vsubrelu, int16_t, int16_t)               \
  X(vadddeqrelu, vadddeqrelu, half, int32_t)            \
  X(vmulconv_f162s8, vmulconv, int8_t, half)            \
  X(vmulconv_f162u8, vmulconv, uint8_t, half)           \
  X(vaddreluconv_f162s8, vaddreluconv, int8_t, half)    \
  X(vaddreluconv_f322f16, vaddreluconv, half, float)    \
  X(vaddreluconv_s162s8, vaddreluconv, int8_t, int16_t) \
  X(vsubreluconv_f162s8, vsubreluconv, int8_t, half)    \
  X(vsubreluconv_f322f16, vsubreluconv, half, float)    \
  X(vsubreluconv_s162s8, vsubreluconv, int8_t, int16_t)

// The same arguments; dst is a source too.
#define HAJAX_VECTOR_TERNARY(X)       \
  X(vmla, vmla, half, half)           \
  X(vmla, vmla, float, float)         \
  X(vmla, vmla, float, half)          \
  X(vmadd, vmadd, half, half)         \
  X(vmadd, vmadd, float, float)       \
  X(vmaddrelu, vmaddrelu, half, half) \
  X(vmaddrelu, vmaddrelu, float, float)

// dst, src, repeat, block strides (dst, src: 16 bits), repeat strides (dst, src: 8 bits).
#define HAJAX_VECTOR_UNARY(X)              \
  X(vexp, vexp, half, half)                \
  X(vexp, vexp, float, float)              \
  X(vln, vln, half, half)                  \
  X(vln, vln, float, float)                \
  X(vabs, vabs, half, half)                \
  X(vabs, vabs, float, float)              \
  X(vrec, vrec, half, half)                \
  X(vrec, vrec, float, float)              \
  X(vsqrt, vsqrt, half, half)              \
  X(vsqrt, vsqrt, float, float)            \
  X(vrsqrt, vrsqrt, half, half)            \
  X(vrsqrt, vrsqrt, float, float)          \
  X(vrelu, vrelu, half, half)              \
  X(vrelu, vrelu, float, float)            \
  X(vrelu, vrelu, int32_t, int32_t)        \
  X(vnot, vnot, int16_t, int16_t)          \
  X(vnot, vnot, uint16_t, uint16_t)        \
  X(vconv_f162f32, vconv, float, half)     \
  X(vconv_f322f16, vconv, half, float)     \
  X(vconv_f322f16o, vconv, half, float)    \
  X(vconv_f322s32r, vconv, int32_t, float) \
  X(vconv_f322s32f, vconv, int32_t, float) \
  X(vconv_f322s32c, vconv, int32_t, float) \
  X(vconv_f322s32a, vconv, int32_t, float) \
  X(vconv_f322s32z, vconv, int32_t, float) \
  X(vconv_s322f32, vconv, float, int32_t)  \
  X(vconv_f162s32r, vconv, int32_t, half)  \
  X(vconv_f162s32f, vconv, int32_t, half)  \
  X(vconv_f162s32c, vconv, int32_t, half)  \
  X(vconv_f162s32a, vconv, int32_t, half)  \
  X(vconv_f162s32z, vconv, int32_t, half)  \
  X(vconv_f162s16r, vconv, int16_t, half)  \
  X(vconv_f162s16f, vconv, int16_t, half)  \
  X(vconv_f162s16c, vconv, int16_t, half)  \
  X(vconv_f162s16a, vconv, int16_t, half)  \
  X(vconv_f162s16z, vconv, int16_t, half)  \
  X(vconv_f162s8, vconv, int8_t, half)     \
  X(vconv_f162s8f, vconv, int8_t, half)    \
  X(vconv_f162s8c, vconv, int8_t, half)    \
  X(vconv_f162s8a, vconv, int8_t, half)    \
  X(vconv_f162s8z, vconv, int8_t, half)    \
  X(vconv_f162u8, vconv, uint8_t, half)    \
  X(vconv_f162u8f, vconv, uint8_t, half)   \
  X(vconv_f162u8c, vconv, uint8_t, half)   \
  X(vconv_f162u8a, vconv, uint8_t, half)   \
  X(vconv_f162u8z, vconv, uint8_t, half)   \
  X(vconv_s82f16, vconv, half, int8_t)     \
  X(vconv_u82f16, vconv, half, uint8_t)    \
  X(vconv_s162f16, vconv, half, int16_t)   \
  X(vconv_deq, vconv, half, int32_t)       \
  X(vcbd_s322s16, vconv, int16_t, int32_t)

// dst, src, scalar, repeat, block strides (dst, src: 16 bits), repeat strides (dst, src: 8 bits).
#define HAJAX_VECTOR_SCALAR(X)      \
  X(vadds, vadds, half, half)       \
  X(vadds, vadds, float, float)     \
  X(vadds, vadds, int16_t, int16_t) \
  X(vadds, vadds, int32_t, int32_t) \
  X(vmuls, vmuls, half, half)       \
  X(vmuls, vmuls, float, float)     \
  X(vmuls, vmuls, int16_t, int16_t) \
  X(vmuls, vmuls, int32_t, int32_t) \
  X(vmaxs, vmaxs, half, half)       \
  X(vmaxs, vmaxs, float, float)     \
  X(vmaxs, vmaxs, int16_t, int16_t) \
  X(vmaxs, vmaxs, int32_t, int32_t) \
  X(vmins, vmins, half, half)       \
  X(vmins, vmins, float, float)     \
  X(vmins, vmins, int16_t, int16_t) \
  X(vmins, vmins, int32_t, int32_t) \
  X(vlrelu, vlrelu, half, half)     \
  X(vlrelu, vlrelu, float, float)

// The same arguments; dst is a source too.
#define HAJAX_VECTOR_SCALAR_TERNARY(X) \
  X(vaxpy, vaxpy, half, half)          \
  X(vaxpy, vaxpy, float, float)        \
  X(vaxpy, vaxpy, float, half)

// dst, src, repeat, dst's repeat stride, src's block and repeat stride, each 16 bits wide.
#define HAJAX_VECTOR_REDUCE(X)    \
  X(vcadd, vcadd, half, half)     \
  X(vcadd, vcadd, float, float)   \
  X(vcgadd, vcgadd, half, half)   \
  X(vcgadd, vcgadd, float, float) \
  X(vcgmax, vcgmax, half, half)   \
  X(vcgmax, vcgmax, float, float) \
  X(vcgmin, vcgmin, half, half)   \
  X(vcgmin, vcgmin, float, float) \
  X(vcpadd, vcpadd, half, half)   \
  X(vcpadd, vcpadd, float, float)

// The same, two zeros, and whether the index comes before the value.
#define HAJAX_VECTOR_EXTREME(X) \
  X(vcmax, vcmax, half, half)   \
  X(vcmax, vcmax, float, float) \
  X(vcmin, vcmin, half, half)   \
  X(vcmin, vcmin, float, float)

// Rows: X(suffix, C++ operator). vcmp_, vcmpv_ and vcmpvs_ have each.
#define HAJAX_VECTOR_COMPARISONS(X) X(lt, <) X(gt, >) X(eq, ==) X(le, <=) X(ge, >=) X(ne, !=)

// vector_dup by element type; the other moves of whole elements by their size.
#define HAJAX_VECTOR_DUP(X)           \
  X(vector_dup, vector_dup, half)     \
  X(vector_dup, vector_dup, int16_t)  \
  X(vector_dup, vector_dup, uint16_t) \
  X(vector_dup, vector_dup, int32_t)  \
  X(vector_dup, vector_dup, uint32_t) \
  X(vector_dup, vector_dup, float)

#endif  // HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_VECTOR_LIST_H_
