// Moves between memories. Defined by the DataCopy, LoadData, Fill and BroadCastVecToMM pages of the Ascend C API
// reference.
//
// Integers are wide on purpose: a value that the instruction's field cannot hold is an error here. `sid` is reserved.
// Counts and lengths of copies start at 1, as in the checks of the 310P's own API (the chip itself takes 0 for nothing
// to do); loads and fills of 0 repeats do nothing, as documented.
#ifndef HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_MOVE_H_
#define HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_MOVE_H_

#include "native/emulator/instructions/types.h"

#pragma GCC visibility push(default)

// `count` runs of `length` blocks of 32 bytes; gaps from the end of a run to the start of the next, in blocks.
void copy_gm_to_cbuf(__cbuf__ void* dst, __gm__ const void* src, int64_t sid, int64_t count, int64_t length,
                     int64_t src_gap, int64_t dst_gap, pad_t pad);  // PAD_NONE only
void copy_gm_to_ubuf(__ubuf__ void* dst, __gm__ const void* src, int64_t sid, int64_t count, int64_t length,
                     int64_t src_gap, int64_t dst_gap);
void copy_ubuf_to_cbuf(__cbuf__ void* dst, __ubuf__ const void* src, int64_t sid, int64_t count, int64_t length,
                       int64_t src_gap, int64_t dst_gap);
void copy_cbuf_to_ubuf(__ubuf__ void* dst, __cbuf__ const void* src, int64_t sid, int64_t count, int64_t length,
                       int64_t src_gap, int64_t dst_gap);
void copy_ubuf_to_ubuf(__ubuf__ void* dst, __ubuf__ const void* src, int64_t sid, int64_t count, int64_t length,
                       int64_t src_gap, int64_t dst_gap);
// After set_atomic_*: adds to what GM holds. Sums of halves and of integers are clamped (the chip's rule is not
// documented).
void copy_ubuf_to_gm(__gm__ void* dst, __ubuf__ const void* src, int64_t sid, int64_t count, int64_t length,
                     int64_t src_gap, int64_t dst_gap);

void set_atomic_none();
void set_atomic_add();  // the operation, which is the only one; the type is set by one of
void set_atomic_f32();
void set_atomic_f16();
void set_atomic_s16();
void set_atomic_s32();  // 310B

// `repeat` fractals of 512 bytes, from fractal `start` of src on; src_stride from start to start (0: the same one
// again), dst_gap from end to start, in fractals. mode `dec`: src goes down. A transposing load turns each 16 x 16
// fractal.
#define HAJAX_LOADS(T)                                                                                                 \
  void load_gm_to_cbuf(__cbuf__ T* dst, __gm__ T* src, int64_t start, int64_t repeat, int64_t src_stride,              \
                       int64_t dst_gap, int64_t sid, addr_cal_mode_t mode);                                            \
  void load_gm_to_ca(__ca__ T* dst, __gm__ T* src, int64_t start, int64_t repeat, int64_t src_stride, int64_t dst_gap, \
                     int64_t sid, addr_cal_mode_t mode);                                                               \
  void load_gm_to_cb(__cb__ T* dst, __gm__ T* src, int64_t start, int64_t repeat, int64_t src_stride, int64_t dst_gap, \
                     int64_t sid, addr_cal_mode_t mode);                                                               \
  void load_cbuf_to_ca(__ca__ T* dst, __cbuf__ T* src, int64_t start, int64_t repeat, int64_t src_stride,              \
                       int64_t dst_gap, int64_t sid, bool transpose, addr_cal_mode_t mode);                            \
  void load_cbuf_to_cb(__cb__ T* dst, __cbuf__ T* src, int64_t start, int64_t repeat, int64_t src_stride,              \
                       int64_t dst_gap, int64_t sid, bool transpose, addr_cal_mode_t mode);                            \
  void load_cbuf_to_ca(__ca__ T* dst, __cbuf__ T* src, int64_t start, int64_t repeat, int64_t src_stride,              \
                       int64_t dst_gap, bool transpose, addr_cal_mode_t mode); /* 310B */                              \
  void load_cbuf_to_cb(__cb__ T* dst, __cbuf__ T* src, int64_t start, int64_t repeat, int64_t src_stride,              \
                       int64_t dst_gap, bool transpose, addr_cal_mode_t mode) /* 310B */
HAJAX_LOADS(half);
HAJAX_LOADS(int8_t);
HAJAX_LOADS(uint8_t);
HAJAX_LOADS(int16_t);  // from here on: 310B; the 310P's API passes 16-bit integers as half
HAJAX_LOADS(uint16_t);
HAJAX_LOADS(float);
HAJAX_LOADS(int32_t);
HAJAX_LOADS(uint32_t);
#undef HAJAX_LOADS

// Fills fractals with one value. 310P: `config` is the number of fractals. 310B: repeats, blocks a repeat << 16, gap <<
// 32, with blocks of 32 bytes in L1 and of 512 in L0A and L0B.
void create_cbuf_matrix(__cbuf__ void* dst, int64_t config, half value);
void create_ca_matrix(__ca__ void* dst, int64_t config, half value);
void create_cb_matrix(__cb__ void* dst, int64_t config, half value);
void create_cbuf_matrix(__cbuf__ void* dst, int64_t config, uint32_t value);
void create_ca_matrix(__ca__ void* dst, int64_t config, uint32_t value);
void create_cb_matrix(__cb__ void* dst, int64_t config, uint32_t value);

// Results between L0C and UB, `count` runs of `length` units. Matrix: a unit is a fractal of 16 x 16 elements, as wide
// in each memory as its type there. Vector: a unit is the first row of 16 elements of a fractal in L0C, and those
// elements alone in UB. The gap in L0C counts fractals, that in UB blocks of 32 bytes.
//
// Modes: float to half rounds to nearest even and clamps; _RELU replaces what is below 0 first; F16_MUL and
// S32toF16_NONE multiply by the half in set_deqscale, DEQ16 by the float there, in float (the chip's own steps are not
// documented). The other modes of the header (8-bit results, one scale a column, shifted inputs) are not emulated: an
// error says so.
#define HAJAX_RESULT(D, S)                                                                                \
  void copy_matrix_cc_to_ubuf(__ubuf__ D* dst, __cc__ S* src, int64_t sid, int64_t count, int64_t length, \
                              int64_t src_gap, int64_t dst_gap, ConvRelu_t mode);                         \
  void copy_vector_cc_to_ubuf(__ubuf__ D* dst, __cc__ S* src, int64_t sid, int64_t count, int64_t length, \
                              int64_t src_gap, int64_t dst_gap, ConvRelu_t mode)
HAJAX_RESULT(half, half);
HAJAX_RESULT(float, float);
HAJAX_RESULT(int32_t, int32_t);
HAJAX_RESULT(uint32_t, uint32_t);
HAJAX_RESULT(half, float);
HAJAX_RESULT(half, int32_t);
HAJAX_RESULT(int8_t, int32_t);
HAJAX_RESULT(uint8_t, int32_t);
HAJAX_RESULT(int16_t, int32_t);
#undef HAJAX_RESULT

#define HAJAX_PRESET(D, S)                                                                                \
  void copy_matrix_ubuf_to_cc(__cc__ D* dst, __ubuf__ S* src, int64_t sid, int64_t count, int64_t length, \
                              int64_t src_gap, int64_t dst_gap, ConvRelu_t mode);                         \
  void copy_vector_ubuf_to_cc(__cc__ D* dst, __ubuf__ S* src, int64_t sid, int64_t count, int64_t length, \
                              int64_t src_gap, int64_t dst_gap, ConvRelu_t mode)
HAJAX_PRESET(half, half);
HAJAX_PRESET(float, float);
HAJAX_PRESET(int32_t, int32_t);
HAJAX_PRESET(uint32_t, uint32_t);
HAJAX_PRESET(float, half);
#undef HAJAX_PRESET

// Each run of `length` groups of 16 elements to as many fractals, whose 16 rows are all that group. src_gap in blocks
// of 32 bytes, dst_gap in fractals.
void broadcast_ub_to_cc(__cc__ half* dst, __ubuf__ half* src, int64_t count, int64_t length, int64_t src_gap,
                        int64_t dst_gap);
void broadcast_ub_to_cc(__cc__ float* dst, __ubuf__ float* src, int64_t count, int64_t length, int64_t src_gap,
                        int64_t dst_gap);
void broadcast_ub_to_cc(__cc__ int32_t* dst, __ubuf__ int32_t* src, int64_t count, int64_t length, int64_t src_gap,
                        int64_t dst_gap);

#pragma GCC visibility pop

#endif  // HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_MOVE_H_
