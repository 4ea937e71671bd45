// Register tiles: R rows x N vectors of accumulators, and how a number of rows is covered by tiles of two heights.
#ifndef HAJAX_NATIVE_CPU_KERNELS_TILE_H_
#define HAJAX_NATIVE_CPU_KERNELS_TILE_H_

#include "native/cpu/kernels/vec.h"

namespace hajax::cpu {
namespace {

template <int W, int N, int R>
struct Tile {
  F<W> at[R][N];
};

template <int W, int N, int R>
HJ_INLINE void clear(Tile<W, N, R>& t) {
  HJ_UNROLL
  for (int i = 0; i < R; ++i) {
    HJ_UNROLL
    for (int j = 0; j < N; ++j) t.at[i][j] = F<W>{};
  }
}

// t += a b, or t -= a b. a is R x depth with row pitch `pitch`; b is depth x (N W), packed.
template <bool Subtract, int W, int N, int R>
HJ_INLINE void accumulate(Tile<W, N, R>& t, const float* a, int64_t pitch, const float* b, int64_t depth) {
  for (int64_t k = 0; k < depth; ++k) {
    F<W> row[N];
    HJ_UNROLL
    for (int j = 0; j < N; ++j) row[j] = load<W>(b + j * W);
    HJ_UNROLL
    for (int i = 0; i < R; ++i) {
      const F<W> factor = splat<W>(a[i * pitch + k]);
      HJ_UNROLL
      for (int j = 0; j < N; ++j) {
        if constexpr (Subtract) {
          t.at[i][j] -= factor * row[j];
        } else {
          t.at[i][j] += factor * row[j];
        }
      }
    }
    b += N * W;
  }
}

// t += a b, where b is depth x (N W) with row pitch `b_pitch`.
template <int W, int N, int R>
HJ_INLINE void accumulate_strided(Tile<W, N, R>& t, const float* a, int64_t pitch, const float* b, int64_t b_pitch,
                                  int64_t depth) {
  for (int64_t k = 0; k < depth; ++k) {
    F<W> row[N];
    HJ_UNROLL
    for (int j = 0; j < N; ++j) row[j] = load<W>(b + k * b_pitch + j * W);
    HJ_UNROLL
    for (int i = 0; i < R; ++i) {
      const F<W> factor = splat<W>(a[i * pitch + k]);
      HJ_UNROLL
      for (int j = 0; j < N; ++j) t.at[i][j] += factor * row[j];
    }
  }
}

// Row i becomes factor[i] * row i.
template <int W, int N, int R>
HJ_INLINE void scale_rows(Tile<W, N, R>& t, const float* factor) {
  HJ_UNROLL
  for (int i = 0; i < R; ++i) {
    HJ_UNROLL
    for (int j = 0; j < N; ++j) t.at[i][j] *= splat<W>(factor[i]);
  }
}

template <int W, int N, int R>
HJ_INLINE void load_tile(Tile<W, N, R>& t, const float* p) {
  HJ_UNROLL
  for (int i = 0; i < R; ++i) {
    HJ_UNROLL
    for (int j = 0; j < N; ++j) t.at[i][j] = load<W>(p + (i * N + j) * W);
  }
}

template <int W, int N, int R>
HJ_INLINE void store_tile(float* p, const Tile<W, N, R>& t) {
  HJ_UNROLL
  for (int i = 0; i < R; ++i) {
    HJ_UNROLL
    for (int j = 0; j < N; ++j) store<W>(p + (i * N + j) * W, t.at[i][j]);
  }
}

template <int W, int N, int R>
HJ_INLINE void store_strided(float* p, int64_t pitch, const Tile<W, N, R>& t) {
  HJ_UNROLL
  for (int i = 0; i < R; ++i) {
    HJ_UNROLL
    for (int j = 0; j < N; ++j) store<W>(p + i * pitch + j * W, t.at[i][j]);
  }
}

template <int R>
struct Rows {
  static constexpr int value = R;
};

// f(height tag, first row) for tiles of Tall or Short rows that cover at least `rows` and overshoot as little as the
// two allow.
template <int Tall, int Short, class Body>
HJ_INLINE void over_rows(int64_t rows, const Body& body) {
  int64_t r = 0;
  while (r < rows) {
    const int64_t left = rows - r;
    const bool tall = left >= Tall + Short || (left > Short && left <= Tall);
    if (tall) {
      body(Rows<Tall>{}, r);
      r += Tall;
    } else {
      body(Rows<Short>{}, r);
      r += Short;
    }
  }
}

}  // namespace
}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_KERNELS_TILE_H_
