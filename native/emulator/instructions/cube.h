// The cube: C = A * B, or C += A * B, with A in L0A, B in L0B and C in L0C.
// Defined by the Mmad, GEMV and fractal pages of the Ascend C API reference.
//
// A lies in rows of fractals of 16 rows x 32 bytes, each row by row (Zz); B in rows of fractals of 32 bytes of k x 16
// columns, each column by column (Zn); C in columns of fractals of 16 x 16, each row by row (Nz). With m == 1 A is a
// plain vector of k elements, and C has its one row at the start of each fractal.
//
// The chip's order of additions is not documented. Here every result adds its products in the order of k to what C held
// (or to 0), in float, one rounding an addition; products of halves are exact. The form with results of 16 bits rounds
// and clamps once, at the end.
//
// What lies in A and B beyond m, k and n is ignored, and rows and columns beyond m and n need not be written (those of
// a fractal's k must be). Fractals of C are written whole, as they can only be moved whole: outside of m x n they hold
// bytes of 0xFF afterwards, NaN in floats, so that a kernel that uses them does not go unseen.
#ifndef HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_CUBE_H_
#define HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_CUBE_H_

#include "native/emulator/instructions/types.h"

#pragma GCC visibility push(default)

// 310P. init: C is overwritten; otherwise added to.
void mad(__cc__ float* c, __ca__ half* a, __cb__ half* b, int64_t m, int64_t k, int64_t n, bool init);
void mad(__cc__ half* c, __ca__ half* a, __cb__ half* b, int64_t m, int64_t k, int64_t n, bool init);
void mad(__cc__ int32_t* c, __ca__ int8_t* a, __cb__ int8_t* b, int64_t m, int64_t k, int64_t n, bool init);
void mad(__cc__ int32_t* c, __ca__ uint8_t* a, __cb__ int8_t* b, int64_t m, int64_t k, int64_t n, bool init);
void mad(__cc__ int32_t* c, __ca__ uint8_t* a, __cb__ uint8_t* b, int64_t m, int64_t k, int64_t n, bool init);

// 310B. Unit flags, alignment of k to 16 and C from the bias table are not emulated: these arguments must be 0.
void mad(__cc__ float* c, __ca__ half* a, __cb__ half* b, int64_t m, int64_t k, int64_t n, int64_t unit_flag,
         bool k_direction_align, bool c_matrix_source, bool init);
void mad(__cc__ float* c, __ca__ float* a, __cb__ float* b, int64_t m, int64_t k, int64_t n, int64_t unit_flag,
         bool k_direction_align, bool c_matrix_source, bool init);
void mad(__cc__ int32_t* c, __ca__ int8_t* a, __cb__ int8_t* b, int64_t m, int64_t k, int64_t n, int64_t unit_flag,
         bool k_direction_align, bool c_matrix_source, bool init);

#pragma GCC visibility pop

#endif  // HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_CUBE_H_
