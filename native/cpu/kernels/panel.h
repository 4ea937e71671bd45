// One panel of state columns through one chunk: solve for the updates, output, new state. All of it stays in the
// first-level cache.
#ifndef HAJAX_NATIVE_CPU_KERNELS_PANEL_H_
#define HAJAX_NATIVE_CPU_KERNELS_PANEL_H_

#include "native/cpu/kernels/chunk.h"

namespace hajax::cpu {
namespace {

// The columns of one value head that a panel covers: `columns` of them from `first` on, fewer than the panel is wide at
// the right edge.
struct Columns {
  int64_t value_head;
  int64_t first;
  int64_t columns;
};

template <class I>
HJ_INLINE void load_values(const Problem& p, int64_t offset, int64_t columns, F<I::W> (&to)[I::N]) {
  constexpr int W = I::W;
  if (columns == I::kPanel) {
    HJ_UNROLL
    for (int j = 0; j < I::N; ++j) to[j] = load_as<W>(p.plan.input_dtype, p.call.value, offset + j * W);
    return;
  }
  float buffer[I::kPanel] = {};
  over_columns<kNarrowest>(columns, [&](auto, int64_t c) HJ_INLINE_LAMBDA {
    store<kNarrowest>(buffer + c, load_as<kNarrowest>(p.plan.input_dtype, p.call.value, offset + c));
  });
  HJ_UNROLL
  for (int j = 0; j < I::N; ++j) to[j] = load<W>(buffer + j * W);
}

template <class I>
HJ_INLINE void store_output(const Problem& p, int64_t offset, int64_t columns, const F<I::W> (&from)[I::N]) {
  constexpr int W = I::W;
  if (columns == I::kPanel) {
    HJ_UNROLL
    for (int j = 0; j < I::N; ++j) store_as<W>(p.plan.output_dtype, p.call.output, offset + j * W, from[j]);
    return;
  }
  float buffer[I::kPanel];
  HJ_UNROLL
  for (int j = 0; j < I::N; ++j) store<W>(buffer + j * W, from[j]);
  over_columns<kNarrowest>(columns, [&](auto, int64_t c) HJ_INLINE_LAMBDA {
    store_as<kNarrowest>(p.plan.output_dtype, p.call.output, offset + c, load<kNarrowest>(buffer + c));
  });
}

// Row I of a tile less what the rows above it contribute, then the rows below. A template recursion: g++ does not
// unroll a triangular loop nest, and a register cannot be indexed.
template <int I, int W, int N, int R>
HJ_INLINE void substitute(Tile<W, N, R>& t, const float* lower, int64_t pitch) {
  if constexpr (I < R) {
    HJ_UNROLL
    for (int k = 0; k < I; ++k) {
      const F<W> factor = splat<W>(lower[I * pitch + k]);
      HJ_UNROLL
      for (int j = 0; j < N; ++j) t.at[I][j] -= factor * t.at[k][j];
    }
    substitute<I + 1>(t, lower, pitch);
  }
}

// X = beta (V - decay K S) - lower X, tile by tile from the top: forward substitution gives X itself, no inverse is
// formed.
template <class I, int R>
HJ_INLINE void solve_tile(const Problem& p, const Span& s, const Columns& at_columns, int64_t r, const float* state,
                          float* scratch) {
  constexpr int W = I::W;
  constexpr int N = I::N;
  const Layout& at = p.layout;
  float* x = scratch + at.update;
  Tile<W, N, R> t;
  clear(t);
  for (int64_t i = r; i < r + R && i < s.rows; ++i) {  // in flight while the product below runs
    const int64_t offset = head_offset(p, s, i, at_columns.value_head) * p.plan.value_dim + at_columns.first;
    prefetch_row(p.plan.input_dtype, p.call.value, offset, at_columns.columns);
    prefetch_row(p.plan.output_dtype, p.call.output, offset, at_columns.columns);
  }
  if (p.delta) accumulate<false>(t, scratch + at.key + r * p.plan.key_dim, p.plan.key_dim, state, p.plan.key_dim);
  HJ_UNROLL
  for (int i = 0; i < R; ++i) {
    F<W> v[N];
    HJ_UNROLL
    for (int j = 0; j < N; ++j) v[j] = F<W>{};
    if (r + i < s.rows) {
      const int64_t offset = head_offset(p, s, r + i, at_columns.value_head) * p.plan.value_dim + at_columns.first;
      load_values<I>(p, offset, at_columns.columns, v);
    }
    const F<W> decay = splat<W>(scratch[at.from_start + r + i]);
    const F<W> beta = splat<W>(scratch[at.beta + r + i]);
    HJ_UNROLL
    for (int j = 0; j < N; ++j) t.at[i][j] = beta * (v[j] - decay * t.at[i][j]);
  }
  if (p.delta) {
    const float* lower = scratch + at.lower + r * at.pitch;
    accumulate<true>(t, lower, at.pitch, x, r);
    substitute<1>(t, lower + r, at.pitch);
  }
  store_tile(x + r * I::kPanel, t);
}

// O = decay Q S + mix X.
template <class I, int R>
HJ_INLINE void output_tile(const Problem& p, const Span& s, const Columns& at_columns, int64_t r, const float* state,
                           float* scratch) {
  const Layout& at = p.layout;
  Tile<I::W, I::N, R> t;
  clear(t);
  accumulate<false>(t, scratch + at.query + r * p.plan.key_dim, p.plan.key_dim, state, p.plan.key_dim);
  scale_rows(t, scratch + at.from_start + r);
  accumulate<false>(t, scratch + at.mix + r * at.pitch, at.pitch, scratch + at.update, r + R);
  HJ_UNROLL
  for (int i = 0; i < R; ++i) {
    if (r + i < s.rows) {
      const int64_t offset = head_offset(p, s, r + i, at_columns.value_head) * p.plan.value_dim + at_columns.first;
      store_output<I>(p, offset, at_columns.columns, t.at[i]);
    }
  }
}

// S = decay S + K^T X.
template <class I>
HJ_INLINE void update_state(const Problem& p, int64_t rows, float total_decay, float* state, float* scratch) {
  constexpr int W = I::W;
  const Layout& at = p.layout;
  float* x = scratch + at.update;
  for (int64_t r = 0; r < rows; ++r) {
    const F<W> decay = splat<W>(scratch[at.to_end + r]);
    HJ_UNROLL
    for (int j = 0; j < I::N; ++j) {
      float* to = x + r * I::kPanel + j * W;
      store<W>(to, load<W>(to) * decay);
    }
  }
  const F<W> decay = splat<W>(total_decay);
  over_rows<I::kTall, I::kShort>(p.plan.key_dim, [&](auto height, int64_t d) HJ_INLINE_LAMBDA {
    constexpr int R = decltype(height)::value;
    Tile<W, I::N, R> t;
    load_tile(t, state + d * I::kPanel);
    HJ_UNROLL
    for (int i = 0; i < R; ++i) {
      HJ_UNROLL
      for (int j = 0; j < I::N; ++j) t.at[i][j] *= decay;
    }
    accumulate<false>(t, scratch + at.key_t + d * at.pitch, at.pitch, x, rows);
    store_tile(state + d * I::kPanel, t);
  });
}

template <class I>
HJ_INLINE void run_panel(const Problem& p, const Span& s, const Columns& columns, float total_decay, float* state,
                         float* scratch, Work* work) {
  const int64_t dim = p.plan.key_dim;
  int64_t depth = 0;  // multiply-accumulates per column
  over_rows<I::kTall, I::kShort>(s.rows, [&](auto height, int64_t r) HJ_INLINE_LAMBDA {
    constexpr int R = decltype(height)::value;
    solve_tile<I, R>(p, s, columns, r, state, scratch);
    output_tile<I, R>(p, s, columns, r, state, scratch);
    depth += R * (dim + r + R);
    if (p.delta) depth += R * (dim + r) + R * (R - 1) / 2;
  });
  update_state<I>(p, s.rows, total_decay, state, scratch);
  depth += dim * s.rows;
  work->macs += depth * I::kPanel;
}

}  // namespace
}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_KERNELS_PANEL_H_
