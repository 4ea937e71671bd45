#include "native/emulator/instructions/cube_multiply.h"

#include <string.h>

#include <algorithm>
#include <type_traits>
#include <vector>

#include "native/emulator/instructions/gemm.h"

namespace hajax::emulator {
namespace {

// One column of fractals of C holds all rows of 16 columns, one after the other, and a product adds its terms in the
// order of k: so each column of fractals is one call of GemmKernels::multiply, with A as rows of floats and B as a
// panel of floats.
struct Scratch {
  std::vector<float> a, panel, sums;
  std::vector<int32_t> totals;

  template <typename T>
  static T* room(std::vector<T>& buffer, int64_t count) {
    if (static_cast<int64_t>(buffer.size()) < count) buffer.resize(static_cast<size_t>(count));
    return buffer.data();
  }
};

Scratch& scratch() {
  thread_local Scratch buffers;
  return buffers;
}

const uint16_t* bits(const Half* halves) { return reinterpret_cast<const uint16_t*>(halves); }

template <typename T>
void widen_fractal_rows(const T* from, float* to, int64_t rows, int64_t stride) {
  constexpr int64_t kDepth = 32 / static_cast<int64_t>(sizeof(T));
  if constexpr (std::is_same_v<T, Half>) {
    gemm_kernels().widen_rows(bits(from), to, rows, stride);
  } else {
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t k = 0; k < kDepth; ++k) to[row * stride + k] = static_cast<float>(from[row * kDepth + k]);
    }
  }
}

template <typename T>
void widen_fractal_columns(const T* from, float* to) {
  constexpr int64_t kDepth = 32 / static_cast<int64_t>(sizeof(T));
  if constexpr (std::is_same_v<T, Half>) {
    gemm_kernels().widen_transposed(bits(from), to);
  } else {
    for (int64_t k = 0; k < kDepth; ++k) {
      for (int64_t j = 0; j < kTile; ++j) to[k * kTile + j] = static_cast<float>(from[j * kDepth + k]);
    }
  }
}

// A as rows of shape.depth_tiles * shape.tile_depth floats.
template <typename T>
const float* widen_a(const T* a, const CubeShape& shape) {
  const int64_t stride = shape.depth_tiles * shape.tile_depth;
  float* rows = Scratch::room(scratch().a, shape.m * stride);
  if (shape.vector) {
    if constexpr (std::is_same_v<T, Half>) {
      half_to_float(a, rows, shape.k);
    } else {
      std::copy(a, a + shape.k, rows);
    }
    return rows;
  }
  const int64_t fractal = kTile * shape.tile_depth;
  for (int64_t i = 0; i < shape.row_tiles; ++i) {
    const int64_t some = std::min(kTile, shape.m - i * kTile);
    for (int64_t d = 0; d < shape.depth_tiles; ++d) {
      widen_fractal_rows(a + (i * shape.depth_tiles + d) * fractal, rows + i * kTile * stride + d * shape.tile_depth,
                         some, stride);
    }
  }
  return rows;
}

// The sixteen columns of one column of B's fractals.
template <typename T>
const float* widen_b(const T* b, const CubeShape& shape, int64_t column_tile) {
  const int64_t fractal = kTile * shape.tile_depth;
  float* panel = Scratch::room(scratch().panel, shape.depth_tiles * fractal);
  for (int64_t d = 0; d < shape.depth_tiles; ++d) {
    widen_fractal_columns(b + (d * shape.column_tiles + column_tile) * fractal, panel + d * fractal);
  }
  return panel;
}

// Outside of m x n.
template <typename T>
void spoil_padding(T* tile, const CubeShape& shape, int64_t columns) {
  constexpr int kSpoilt = 0xFF;
  for (int64_t row = 0; columns < kTile && row < shape.m; ++row) {
    memset(static_cast<void*>(tile + row * kTile + columns), kSpoilt, static_cast<size_t>(kTile - columns) * sizeof(T));
  }
  const int64_t rows = shape.row_tiles * kTile - shape.m;
  if (rows > 0)
    memset(static_cast<void*>(tile + shape.m * kTile), kSpoilt, static_cast<size_t>(rows * kTile) * sizeof(T));
}

int64_t multiply_tile(float* c, const float* a, const float* b, const CubeShape& shape, bool init, int64_t,
                      GemmKernels::Multiply multiply) {
  multiply(a, shape.depth_tiles * shape.tile_depth, b, c, shape.m, shape.k, !init);
  return 0;
}

int64_t multiply_tile(Half* c, const float* a, const float* b, const CubeShape& shape, bool init, int64_t columns,
                      GemmKernels::Multiply multiply) {
  const int64_t count = shape.m * kTile;
  float* sums = Scratch::room(scratch().sums, count);
  if (!init) half_to_float(c, sums, count);
  multiply(a, shape.depth_tiles * shape.tile_depth, b, sums, shape.m, shape.k, !init);
  for (int64_t row = 0; columns < kTile && row < shape.m; ++row) {  // what clamps there does not count
    std::fill(sums + row * kTile + columns, sums + (row + 1) * kTile, 0.0f);
  }
  return gemm_kernels().narrow(sums, reinterpret_cast<uint16_t*>(c), count);
}

// Sums of so few products of bytes are exact in float: 255 * 255 * 256 < 2^24.
constexpr int64_t kExactDepth = 256;

int64_t multiply_tile(int32_t* c, const float* a, const float* b, const CubeShape& shape, bool init, int64_t columns,
                      GemmKernels::Multiply multiply) {
  const int64_t count = shape.m * kTile;
  float* sums = Scratch::room(scratch().sums, count);
  int32_t* totals = Scratch::room(scratch().totals, count);
  std::fill(totals, totals + count, 0);
  for (int64_t k = 0; k < shape.k; k += kExactDepth) {
    const int64_t depth = std::min(kExactDepth, shape.k - k);
    multiply(a + k, shape.depth_tiles * shape.tile_depth, b + k * kTile, sums, shape.m, depth, false);
    for (int64_t i = 0; i < count; ++i) totals[i] += static_cast<int32_t>(sums[i]);
  }
  int64_t clamped = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (i % kTile >= columns) continue;
    const int64_t sum = (init ? int64_t{0} : c[i]) + totals[i];
    const int64_t held = std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX);
    clamped += held != sum;
    c[i] = static_cast<int32_t>(held);
  }
  return clamped;
}

template <typename C, typename A, typename B>
int64_t multiply_all(C* c, const A* a, const B* b, const CubeShape& shape, bool init, GemmKernels::Multiply multiply) {
  const float* rows = widen_a(a, shape);
  int64_t clamped = 0;
  for (int64_t j = 0; j < shape.column_tiles; ++j) {
    C* tile = c + j * shape.row_tiles * kTile * kTile;
    const int64_t columns = std::min(kTile, shape.n - j * kTile);
    clamped += multiply_tile(tile, rows, widen_b(b, shape, j), shape, init, columns, multiply);
    spoil_padding(tile, shape, columns);
  }
  return clamped;
}

}  // namespace

int64_t cube_multiply(float* c, const Half* a, const Half* b, const CubeShape& shape, bool init) {
  return multiply_all(c, a, b, shape, init, gemm_kernels().multiply);
}

int64_t cube_multiply(Half* c, const Half* a, const Half* b, const CubeShape& shape, bool init) {
  return multiply_all(c, a, b, shape, init, gemm_kernels().multiply);
}

int64_t cube_multiply(float* c, const float* a, const float* b, const CubeShape& shape, bool init) {
  return multiply_all(c, a, b, shape, init, gemm_kernels().multiply_fused);
}

int64_t cube_multiply(int32_t* c, const int8_t* a, const int8_t* b, const CubeShape& shape, bool init) {
  return multiply_all(c, a, b, shape, init, gemm_kernels().multiply);
}

int64_t cube_multiply(int32_t* c, const uint8_t* a, const int8_t* b, const CubeShape& shape, bool init) {
  return multiply_all(c, a, b, shape, init, gemm_kernels().multiply);
}

int64_t cube_multiply(int32_t* c, const uint8_t* a, const uint8_t* b, const CubeShape& shape, bool init) {
  return multiply_all(c, a, b, shape, init, gemm_kernels().multiply);
}

}  // namespace hajax::emulator
