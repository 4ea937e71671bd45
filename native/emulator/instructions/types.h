// What device code and the real API headers expect the device compiler to bring: half, address-space qualifiers, and
// the enumerations of instruction arguments. All in the global namespace, as there.
#ifndef HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_TYPES_H_
#define HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_TYPES_H_

#include <stddef.h>
#include <stdint.h>

#include "native/emulator/core/half.h"

using half = hajax::emulator::Half;
// Named by headers only. No vector unit here computes with it, so an object of this type does not compile.
struct bfloat16_t;

// The emulator finds the memory of a pointer by its address; the qualifiers mean nothing to the host compiler.
#ifndef __aicore__
#define __aicore__
#endif
#ifndef __host_aicore__
#define __host_aicore__
#endif
#ifndef __global__
#define __global__
#endif
#ifndef __gm__
#define __gm__
#endif
#ifndef __ubuf__
#define __ubuf__
#endif
#ifndef __cbuf__
#define __cbuf__
#endif
#ifndef __ca__
#define __ca__
#endif
#ifndef __cb__
#define __cb__
#endif
#ifndef __cc__
#define __cc__
#endif
#ifndef __fbuf__
#define __fbuf__
#endif

// Pipes by the numbers that set_flag, wait_flag and pipe_barrier take.
enum pipe_t {
  PIPE_S = 0,
  PIPE_V = 1,
  PIPE_M = 2,
  PIPE_MTE1 = 3,
  PIPE_MTE2 = 4,
  PIPE_MTE3 = 5,
  PIPE_ALL = 6,
  PIPE_MTE4 = 7,  // from here on: other chips'; naming one in an instruction is an error
  PIPE_MTE5 = 8,
  PIPE_V2 = 9,
  PIPE_FIX = 10,
};

enum event_t {
  EVENT_ID0 = 0,
  EVENT_ID1 = 1,
  EVENT_ID2 = 2,
  EVENT_ID3 = 3,
  EVENT_ID4 = 4,
  EVENT_ID5 = 5,
  EVENT_ID6 = 6,
  EVENT_ID7 = 7,
};

// copy_gm_to_cbuf: how rows shorter than a block are padded.
enum pad_t {
  PAD_NONE = 0,
  PAD_MODE1 = 1,
  PAD_MODE2 = 2,
  PAD_MODE3 = 3,
  PAD_MODE4 = 4,
  PAD_MODE5 = 5,
};

// Moves between L0C and UB: conversion, scaling and ReLU on the way.
enum ConvRelu_t {
  CRMODE_NONE = 0,
  CRMODE_F32toF16_NONE = 1,
  CRMODE_F32toF16_RELU = 2,
  CRMODE_S32toF16_NONE = 3,
  CRMODE_F16toF32_NONE = 4,
  CRMODE_NONE_RELU = 5,
  CRMODE_F16_MUL = 6,
  CRMODE_S32toF16_DEQSCALE_SPR = 7,
  CRMODE_DEQSCALE_VDEQ8 = 8,
  CRMODE_DEQSCALE_DEQ8 = 9,
  CRMODE_DEQSCALE_VDEQ16 = 10,
  CRMODE_DEQSCALE_DEQ16 = 11,
  CRMODE_DEQSCALE_VDEQS16 = 12,
  CRMODE_DEQSCALE_DEQS16 = 13,
};

// Loads of fractals: whether source addresses grow or shrink.
enum addr_cal_mode_t { inc = 0, dec = 1 };

// Image-to-column loads: whether a pixel holds four channels only.
enum csize_t { CSIZE0 = 0, CSIZE1 = 1 };

// Address registers of the vector unit, and which half of one an indirect load fills.
enum ub_addr8_t { VA0 = 0, VA1 = 1, VA2 = 2, VA3 = 3, VA4 = 4, VA5 = 5, VA6 = 6, VA7 = 7 };
enum addr_half_t { L128 = 0, H128 = 1 };

// dcci: how much of the scalar unit's data cache is written back.
enum cache_line_t { SINGLE_CACHE_LINE = 0, ENTIRE_DATA_CACHE = 1 };
enum dcci_dst_t { CACHELINE_ALL = 0, CACHELINE_UB = 1, CACHELINE_OUT = 2, CACHELINE_ATOMIC = 3 };

#endif  // HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_TYPES_H_
