// Products of row-major matrices, tile by tile, and what else a backward pass does to whole matrices.
#ifndef HAJAX_NATIVE_CPU_KERNELS_PRODUCT_H_
#define HAJAX_NATIVE_CPU_KERNELS_PRODUCT_H_

#include "native/cpu/kernels/elements.h"
#include "native/cpu/kernels/tile.h"
#include "native/cpu/kernels/transpose.h"

namespace hajax::cpu {
namespace {

constexpr int64_t kMostRows = 128;  // tokens of the longest chunk

// Rows `pitch` floats apart. Whatever is read or written by tiles has columns up to a whole panel.
struct Matrix {
  float* at;
  int64_t pitch;
  HJ_INLINE float* row(int64_t r) const { return at + r * pitch; }
  HJ_INLINE Matrix from(int64_t r, int64_t c) const { return {at + r * pitch + c, pitch}; }
};

// t += a^T b: a is depth x R, b is depth x (N W).
template <int W, int N, int R>
HJ_INLINE void accumulate_transposed(Tile<W, N, R>& t, const Matrix& a, const Matrix& b, int64_t depth) {
  const float* left = a.at;
  const float* right = b.at;
  for (int64_t k = 0; k < depth; ++k, left += a.pitch, right += b.pitch) {
    F<W> row[N];
    HJ_UNROLL
    for (int j = 0; j < N; ++j) row[j] = load<W>(right + j * W);
    HJ_UNROLL
    for (int i = 0; i < R; ++i) {
      const F<W> factor = splat<W>(left[i]);
      HJ_UNROLL
      for (int j = 0; j < N; ++j) t.at[i][j] += factor * row[j];
    }
  }
}

template <int W, int N, int R>
HJ_INLINE void accumulate_rows(Tile<W, N, R>& t, const Matrix& a, const Matrix& b, int64_t depth) {
  accumulate_strided(t, a.at, a.pitch, b.at, b.pitch, depth);
}

template <int W, int N, int R>
HJ_INLINE void load_strided(Tile<W, N, R>& t, const float* p, int64_t pitch) {
  HJ_UNROLL
  for (int i = 0; i < R; ++i) {
    HJ_UNROLL
    for (int j = 0; j < N; ++j) t.at[i][j] = load<W>(p + i * pitch + j * W);
  }
}

// As over_rows, from the last tile up.
template <int Tall, int Short, class Body>
HJ_INLINE void over_rows_upwards(int64_t rows, const Body& body) {
  int64_t starts[kMostRows / Short + 1];
  int64_t tiles = 0;
  over_rows<Tall, Short>(rows, [&](auto, int64_t r) HJ_INLINE_LAMBDA { starts[tiles++] = r; });
  int64_t end = starts[tiles - 1];
  for (int64_t i = tiles - 1; i >= 0; --i) {
    const int64_t r = starts[i];
    // The last tile's height is what over_rows took there; of the others it is the distance to the next.
    const bool tall = i == tiles - 1 ? rows - r > Short : end - r == Tall;
    if (tall) {
      body(Rows<Tall>{}, r);
    } else {
      body(Rows<Short>{}, r);
    }
    end = r;
  }
}

// to = a b with a [count, depth], b [depth, columns].
template <class I>
void multiply(const Matrix& a, const Matrix& b, int64_t count, int64_t depth, int64_t columns, const Matrix& to) {
  for (int64_t c = 0; c < columns; c += I::kPanel) {
    over_rows<I::kTall, I::kShort>(count, [&](auto height, int64_t r) HJ_INLINE_LAMBDA {
      Tile<I::W, I::N, decltype(height)::value> t;
      clear(t);
      accumulate_rows(t, a.from(r, 0), b.from(0, c), depth);
      store_strided(to.row(r) + c, to.pitch, t);
    });
  }
}

// Likewise, but only what is on or below the diagonal of a square `to`.
template <class I>
void multiply_lower(const Matrix& a, const Matrix& b, int64_t count, int64_t depth, const Matrix& to) {
  over_rows<I::kTall, I::kShort>(count, [&](auto height, int64_t r) HJ_INLINE_LAMBDA {
    constexpr int R = decltype(height)::value;
    for (int64_t c = 0; c < r + R; c += I::kPanel) {
      Tile<I::W, I::N, R> t;
      clear(t);
      accumulate_rows(t, a.from(r, 0), b.from(0, c), depth);
      store_strided(to.row(r) + c, to.pitch, t);
    }
  });
}

// to[c][r] = from[r][c]; both counts a multiple of 8.
template <class I>
void transpose(const Matrix& from, int64_t rows, int64_t columns, const Matrix& to) {
  constexpr int B = I::W < kNarrowest ? I::W : kNarrowest;
  for (int64_t r = 0; r < rows; r += B) {
    for (int64_t c = 0; c < columns; c += B) {
      transpose_block<B>(from.row(r) + c, from.pitch, to.row(c) + r, to.pitch);
    }
  }
}

// Sum of a[i] b[i] over a multiple of 8 elements.
HJ_INLINE float dot_rows(const float* a, const float* b, int64_t count) {
  F<kNarrowest> even{}, odd{};
  int64_t c = 0;
  for (; c + 2 * kNarrowest <= count; c += 2 * kNarrowest) {
    even += load<kNarrowest>(a + c) * load<kNarrowest>(b + c);
    odd += load<kNarrowest>(a + c + kNarrowest) * load<kNarrowest>(b + c + kNarrowest);
  }
  if (c < count) even += load<kNarrowest>(a + c) * load<kNarrowest>(b + c);
  return sum<kNarrowest>(even + odd);
}

template <class I>
HJ_INLINE void scale_row(float* row, float factor, int64_t columns) {
  over_columns<I::W>(columns, [&](auto width, int64_t c) HJ_INLINE_LAMBDA {
    constexpr int V = decltype(width)::value;
    store<V>(row + c, load<V>(row + c) * splat<V>(factor));
  });
}

HJ_INLINE void clear_rows(const Matrix& m, int64_t first, int64_t count) {
  __builtin_memset(m.row(first), 0, static_cast<uint64_t>(count * m.pitch) * sizeof(float));
}

}  // namespace
}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_KERNELS_PRODUCT_H_
