// Mmad on the bytes of L0A, L0B and L0C, without checks: what the instruction computes once it may run.
#ifndef HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_CUBE_MULTIPLY_H_
#define HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_CUBE_MULTIPLY_H_

#include <stdint.h>

#include "native/emulator/core/half.h"

namespace hajax::emulator {

// Sizes of one product, in elements and in fractals.
struct CubeShape {
  CubeShape(int64_t rows, int64_t depth, int64_t columns, int64_t bytes)
      : m(rows),
        k(depth),
        n(columns),
        operand_bytes(bytes),
        tile_depth(32 / bytes),
        row_tiles((rows + 15) / 16),
        depth_tiles((depth + tile_depth - 1) / tile_depth),
        column_tiles((columns + 15) / 16),
        vector(rows == 1) {}

  int64_t m, k, n;
  int64_t operand_bytes;
  int64_t tile_depth;  // of k in one fractal of A or B
  int64_t row_tiles, depth_tiles, column_tiles;
  bool vector;  // A is k elements in a row
};

// Returns how many results were clamped to their type's range.
int64_t cube_multiply(float* c, const Half* a, const Half* b, const CubeShape& shape, bool init);
int64_t cube_multiply(Half* c, const Half* a, const Half* b, const CubeShape& shape, bool init);
int64_t cube_multiply(float* c, const float* a, const float* b, const CubeShape& shape, bool init);
int64_t cube_multiply(int32_t* c, const int8_t* a, const int8_t* b, const CubeShape& shape, bool init);
int64_t cube_multiply(int32_t* c, const uint8_t* a, const int8_t* b, const CubeShape& shape, bool init);
int64_t cube_multiply(int32_t* c, const uint8_t* a, const uint8_t* b, const CubeShape& shape, bool init);

}  // namespace hajax::emulator

#endif  // HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_CUBE_MULTIPLY_H_
