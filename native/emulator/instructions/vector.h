// The vector unit's instructions, with the names and argument order that the chip's API headers call. Operands lie in
// UB.
//
// Strides count 32-byte blocks: block strides from block to block within a repeat, repeat strides from repeat to
// repeat. Arguments are wider than the chip's fields, so that a value that does not fit is an error and not another
// value. What each computes stands where it is defined: vector_binary.cpp, vector_unary.cpp, vector_convert.cpp,
// vector_scalar.cpp, vector_reduce.cpp, vector_compare.cpp, vector_transpose.cpp, vector_special.cpp; rounding in
// vector_elements.h, masks and limits in vector_shape.h.
#ifndef HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_VECTOR_H_
#define HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_VECTOR_H_

#include <stdint.h>

#include "native/emulator/instructions/types.h"
#include "native/emulator/instructions/vector_list.h"

#pragma GCC visibility push(default)

#define HAJAX_BINARY(function, instruction, D, S)                                                  \
  void function(__ubuf__ D* dst, __ubuf__ const S* src0, __ubuf__ const S* src1, int64_t repeat,   \
                int64_t dst_block_stride, int64_t src0_block_stride, int64_t src1_block_stride,    \
                int64_t dst_repeat_stride, int64_t src0_repeat_stride, int64_t src1_repeat_stride, \
                int64_t reserved0 = 0, int64_t reserved1 = 0, int64_t reserved2 = 0);
HAJAX_VECTOR_BINARY(HAJAX_BINARY)
HAJAX_VECTOR_TERNARY(HAJAX_BINARY)
#undef HAJAX_BINARY

#define HAJAX_UNARY(function, instruction, D, S)                                                                       \
  void function(__ubuf__ D* dst, __ubuf__ const S* src, int64_t repeat, int64_t dst_block_stride,                      \
                int64_t src_block_stride, int64_t dst_repeat_stride, int64_t src_repeat_stride, int64_t reserved0 = 0, \
                int64_t reserved1 = 0);
HAJAX_VECTOR_UNARY(HAJAX_UNARY)
#undef HAJAX_UNARY

// int16 to 8 bits with the scale and offset of set_deqscale (deqs) or sixteen of them in UB (vdeqs). The 16 results of
// a block go into the lower or the upper half of a destination block.
void vconv_deqs162b8(__ubuf__ int8_t* dst, __ubuf__ const int16_t* src, int64_t repeat, int64_t dst_block_stride,
                     int64_t src_block_stride, int64_t dst_repeat_stride, int64_t src_repeat_stride, int64_t reserved0,
                     int64_t reserved1, bool upper_half);
void vconv_deqs162b8(__ubuf__ uint8_t* dst, __ubuf__ const int16_t* src, int64_t repeat, int64_t dst_block_stride,
                     int64_t src_block_stride, int64_t dst_repeat_stride, int64_t src_repeat_stride, int64_t reserved0,
                     int64_t reserved1, bool upper_half);
void vconv_vdeqs162b8(__ubuf__ int8_t* dst, __ubuf__ const int16_t* src, int64_t repeat, int64_t dst_block_stride,
                      int64_t src_block_stride, int64_t dst_repeat_stride, int64_t src_repeat_stride, int64_t reserved0,
                      int64_t reserved1, bool upper_half);
void vconv_vdeqs162b8(__ubuf__ uint8_t* dst, __ubuf__ const int16_t* src, int64_t repeat, int64_t dst_block_stride,
                      int64_t src_block_stride, int64_t dst_repeat_stride, int64_t src_repeat_stride, int64_t reserved0,
                      int64_t reserved1, bool upper_half);

#define HAJAX_SCALAR(function, instruction, D, S)                                                                      \
  void function(__ubuf__ D* dst, __ubuf__ const S* src, S scalar, int64_t repeat, int64_t dst_block_stride,            \
                int64_t src_block_stride, int64_t dst_repeat_stride, int64_t src_repeat_stride, int64_t reserved0 = 0, \
                int64_t reserved1 = 0);
HAJAX_VECTOR_SCALAR(HAJAX_SCALAR)
HAJAX_VECTOR_SCALAR_TERNARY(HAJAX_SCALAR)
#undef HAJAX_SCALAR

#define HAJAX_REDUCE(function, instruction, D, S)                                                  \
  void function(__ubuf__ D* dst, __ubuf__ const S* src, int64_t repeat, int64_t dst_repeat_stride, \
                int64_t src_block_stride, int64_t src_repeat_stride);
HAJAX_VECTOR_REDUCE(HAJAX_REDUCE)
#undef HAJAX_REDUCE

#define HAJAX_EXTREME(function, instruction, D, S)                                                         \
  void function(__ubuf__ D* dst, __ubuf__ const S* src, int64_t repeat, int64_t dst_repeat_stride,         \
                int64_t src_block_stride, int64_t src_repeat_stride, int64_t reserved0, int64_t reserved1, \
                bool index_first);
HAJAX_VECTOR_EXTREME(HAJAX_EXTREME)
#undef HAJAX_EXTREME

// vcmp: one repeat, into the compare-mask register. vcmpv, vcmpvs: bits into memory, one after the other from dst on.
#define HAJAX_COMPARE(suffix, T)                                                                               \
  void vcmp_##suffix(__ubuf__ const T* src0, __ubuf__ const T* src1, int64_t repeat, int64_t dst_block_stride, \
                     int64_t src0_block_stride, int64_t src1_block_stride, int64_t dst_repeat_stride,          \
                     int64_t src0_repeat_stride, int64_t src1_repeat_stride);                                  \
  void vcmpv_##suffix(__ubuf__ uint8_t* dst, __ubuf__ const T* src0, __ubuf__ const T* src1, int64_t repeat,   \
                      int64_t dst_block_stride, int64_t src0_block_stride, int64_t src1_block_stride,          \
                      int64_t dst_repeat_stride, int64_t src0_repeat_stride, int64_t src1_repeat_stride);      \
  void vcmpvs_##suffix(__ubuf__ uint8_t* dst, __ubuf__ const T* src, T scalar, int64_t repeat,                 \
                       int64_t dst_block_stride, int64_t src_block_stride, int64_t dst_repeat_stride,          \
                       int64_t src_repeat_stride);
#define HAJAX_COMPARE_ALL(suffix, operation) HAJAX_COMPARE(suffix, half) HAJAX_COMPARE(suffix, float)
HAJAX_VECTOR_COMPARISONS(HAJAX_COMPARE_ALL)
#undef HAJAX_COMPARE_ALL
#undef HAJAX_COMPARE

// Without a mode (or mode 0): src0 where the compare-mask register has a 1, src1 elsewhere, the same bits each repeat.
// Mode 1: the third operand holds the bits, repeat after repeat; the register's first element stands for src1.
// Mode 2: the register's low 32 bits hold the UB address of the bits.
#define HAJAX_SELECT(T, Third)                                                                                         \
  void vsel(__ubuf__ T* dst, __ubuf__ const T* src0, __ubuf__ const Third* src1, int64_t repeat,                       \
            int64_t dst_block_stride, int64_t src0_block_stride, int64_t src1_block_stride, int64_t dst_repeat_stride, \
            int64_t src0_repeat_stride, int64_t src1_repeat_stride, int64_t mode = 0, int64_t reserved0 = 0,           \
            int64_t reserved1 = 0);
#define HAJAX_SELECT_ALL(T) \
  HAJAX_SELECT(T, T)        \
  HAJAX_SELECT(T, uint8_t) HAJAX_SELECT(T, uint16_t) HAJAX_SELECT(T, uint32_t) HAJAX_SELECT(T, uint64_t)
HAJAX_SELECT_ALL(half)
HAJAX_SELECT_ALL(float)
#undef HAJAX_SELECT_ALL
#undef HAJAX_SELECT

// Strides of the source mean nothing.
#define HAJAX_DUP(function, instruction, T)                                                                    \
  void function(__ubuf__ T* dst, T scalar, int64_t repeat, int64_t dst_block_stride, int64_t src_block_stride, \
                int64_t dst_repeat_stride, int64_t src_repeat_stride);
HAJAX_VECTOR_DUP(HAJAX_DUP)
#undef HAJAX_DUP

// 16x16 elements of 16 bits.
void vtranspose(__ubuf__ uint16_t* dst, __ubuf__ const uint16_t* src);

// Sixteen blocks to sixteen blocks, their addresses in the pairs of registers that start at dst and src.
void scatter_vnchwconv_b8(ub_addr8_t dst, ub_addr8_t src, int64_t repeat, int64_t dst_repeat_stride,
                          int64_t src_repeat_stride, bool dst_upper_half, bool src_upper_half);
void scatter_vnchwconv_b16(ub_addr8_t dst, ub_addr8_t src, int64_t repeat, int64_t dst_repeat_stride,
                           int64_t src_repeat_stride);
void scatter_vnchwconv_b32(ub_addr8_t dst, ub_addr8_t src, int64_t repeat, int64_t dst_repeat_stride,
                           int64_t src_repeat_stride);

// [channels, pixels] to [pixels, channels]; with channels_last the other way.
void v4dtrans(__ubuf__ uint8_t* dst, __ubuf__ const uint8_t* src, int64_t pixels, int64_t channels, bool channels_last);
void v4dtrans(__ubuf__ uint16_t* dst, __ubuf__ const uint16_t* src, int64_t pixels, int64_t channels,
              bool channels_last);
void v4dtrans(__ubuf__ uint32_t* dst, __ubuf__ const uint32_t* src, int64_t pixels, int64_t channels,
              bool channels_last);

// config: bits 0 to 31 the UB address that offsets (in bytes) count from, 32 to 39 dst's repeat stride (vgather), 40 to
// 47 src's repeat stride (vscatter), 56 to 63 the repeat.
void vgather(__ubuf__ uint16_t* dst, __ubuf__ const uint32_t* offsets, uint64_t config);
void vgather(__ubuf__ uint32_t* dst, __ubuf__ const uint32_t* offsets, uint64_t config);
void vscatter(__ubuf__ const uint32_t* offsets, __ubuf__ const uint16_t* src, uint64_t config);
void vscatter(__ubuf__ const uint32_t* offsets, __ubuf__ const uint32_t* src, uint64_t config);

// Keeps the elements of src0 whose bit is set, packed from dst on. pattern 0: the bits are src1; 1 to 6: every second
// or fourth element.
void vreduce(__ubuf__ uint16_t* dst, __ubuf__ const uint16_t* src0, __ubuf__ const uint16_t* src1, int64_t repeat,
             int64_t dst_block_stride, int64_t src0_block_stride, int64_t pattern, int64_t dst_repeat_stride,
             int64_t src0_repeat_stride, int64_t src1_repeat_stride);
void vreduce(__ubuf__ uint32_t* dst, __ubuf__ const uint32_t* src0, __ubuf__ const uint32_t* src1, int64_t repeat,
             int64_t dst_block_stride, int64_t src0_block_stride, int64_t pattern, int64_t dst_repeat_stride,
             int64_t src0_repeat_stride, int64_t src1_repeat_stride);

// Not on 310P. vbrcb: eight elements a repeat, each over a whole block. vci: first, first + 1, first + 2, ...
void vbrcb(__ubuf__ uint16_t* dst, __ubuf__ const uint16_t* src, int64_t dst_block_stride, int64_t dst_repeat_stride,
           int64_t repeat);
void vbrcb(__ubuf__ uint32_t* dst, __ubuf__ const uint32_t* src, int64_t dst_block_stride, int64_t dst_repeat_stride,
           int64_t repeat);
void vci(__ubuf__ half* dst, half first, int64_t repeat, int64_t dst_block_stride, int64_t dst_repeat_stride);
void vci(__ubuf__ float* dst, float first, int64_t repeat, int64_t dst_block_stride, int64_t dst_repeat_stride);
void vci(__ubuf__ int16_t* dst, int16_t first, int64_t repeat, int64_t dst_block_stride, int64_t dst_repeat_stride);
void vci(__ubuf__ int32_t* dst, int32_t first, int64_t repeat, int64_t dst_block_stride, int64_t dst_repeat_stride);

// Registers of S that vector instructions read as they are issued.
void set_mask_norm();
void set_mask_count();
void set_vector_mask(uint64_t high, uint64_t low);
void set_va_reg_sb(ub_addr8_t which, const uint64_t* addresses);  // of eight blocks
void set_deqscale(half scale);
void set_deqscale(uint64_t config);
void set_ctrl(uint64_t value);
int64_t get_ctrl();
int64_t get_max_min_cnt();  // of vcmax and vcmin: the value in the low 32 bits, its index in the high
int64_t get_acc_val();      // of vcadd: the sum over all repeats
int64_t get_rsvd_cnt();     // of vreduce: elements kept

// The compare-mask register belongs to V: these two are instructions of its queue and move 16 bytes from and to UB.
void set_cmpmask(__ubuf__ const void* src);
void get_cmpmask(__ubuf__ void* dst);

#pragma GCC visibility pop

#endif  // HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_VECTOR_H_
