// One panel of state columns through one chunk: solve for the updates, output, new state. All of it stays in the
// first-level cache.
#ifndef HAJAX_NATIVE_CPU_KERNELS_PANEL_H_
#define HAJAX_NATIVE_CPU_KERNELS_PANEL_H_

#include "native/cpu/kernels/chunk.h"

namespace hajax::cpu {
namespace {

// The columns of one value head that a task carries.
struct Columns {
  int64_t value_head;
  int64_t first;
  int64_t columns;
};

// What a panel multiplies with the state and the updates: the key and query rows, decayed from the chunk's start when
// that is done by channel.
struct PanelRows {
  const float* key;
  const float* query;
};

// The value rows of a chunk, as floats, into scratch: a panel is one cache line wide, and lines a whole token apart
// would evict one another. Columns past the right edge and rows past the last token, `padded` of them in all, become
// zero.
template <class I>
HJ_INLINE void stage_values(const Problem& p, const Span& s, const Columns& c, int64_t padded, float* scratch) {
  const int64_t pitch = p.layout.value_pitch;
  float* values = scratch + p.layout.values;
  for (int64_t r = 0; r < s.rows; ++r) {
    const int64_t offset = head_offset(p, s, r, c.value_head) * p.plan.value_dim + c.first;
    float* to = values + r * pitch;
    over_columns<I::W>(c.columns, [&](auto width, int64_t j) HJ_INLINE_LAMBDA {
      constexpr int V = decltype(width)::value;
      store<V>(to + j, load_as<V>(p.plan.input_dtype, p.call.value, offset + j));
    });
    for (int64_t j = c.columns; j < round_up(c.columns, I::kPanel); ++j) to[j] = 0;
  }
  __builtin_memset(values + s.rows * pitch, 0, static_cast<uint64_t>((padded - s.rows) * pitch) * sizeof(float));
}

// While panel `part` of `parts` runs, its share of the rows that come next: the outputs of this chunk, the values and,
// with the first head, the keys and queries of the chunk that follows. In one burst they would hold up the loads of the
// kernel itself.
HJ_INLINE void prefetch_next(const Problem& p, const Span& s, const Columns& c, bool keys, int64_t part,
                             int64_t parts) {
  const int64_t dim = p.plan.key_dim;
  for (int64_t r = part * s.rows / parts; r < (part + 1) * s.rows / parts; ++r) {
    const int64_t here = head_offset(p, s, r, c.value_head) * p.plan.value_dim + c.first;
    prefetch_row(p.plan.output_dtype, p.call.output, here, c.columns);
    if (s.first + s.rows + r >= p.call.tokens) continue;
    const int64_t next = head_offset(p, s, s.rows + r, c.value_head) * p.plan.value_dim + c.first;
    prefetch_row(p.plan.input_dtype, p.call.value, next, c.columns);
    if (keys) prefetch_row(p.plan.input_dtype, p.call.key, key_offset(p, s, s.rows + r), dim);
    if (keys) prefetch_row(p.plan.input_dtype, p.call.query, key_offset(p, s, s.rows + r), dim);
    if (p.decay == kDecay_per_channel) {
      prefetch_row(kDtype_float32, p.call.log_decay, head_offset(p, s, s.rows + r, c.value_head) * dim, dim);
    }
  }
}

// The output rows of a span, rounded, from floats whose rows are `pitch` apart.
template <class I>
HJ_INLINE void store_rows(const Problem& p, const Span& s, const Columns& c, const float* from, int64_t pitch) {
  for (int64_t r = 0; r < s.rows; ++r, from += pitch) {
    const int64_t offset = head_offset(p, s, r, c.value_head) * p.plan.value_dim + c.first;
    over_columns<I::W>(c.columns, [&](auto width, int64_t j) HJ_INLINE_LAMBDA {
      constexpr int V = decltype(width)::value;
      store_as<V>(p.plan.output_dtype, p.call.output, offset + j, load<V>(from + j));
    });
  }
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

// X = write V - erase decay K S - lower X, tile by tile from the top: forward substitution gives X itself, no inverse
// is formed.
template <class I, int R>
HJ_INLINE void solve_tile(const Problem& p, const float* key, int64_t r, int64_t column, const float* state,
                          float* scratch) {
  constexpr int W = I::W;
  constexpr int N = I::N;
  const Layout& at = p.layout;
  const float* values = scratch + at.values + r * at.value_pitch + column;
  float* x = scratch + at.update;
  Tile<W, N, R> t;
  clear(t);
  if (p.delta) accumulate<false>(t, key + r * p.plan.key_dim, p.plan.key_dim, state, p.plan.key_dim);
  HJ_UNROLL
  for (int i = 0; i < R; ++i) {
    const F<W> decay = splat<W>(scratch[at.from_start + r + i]);
    const F<W> write = splat<W>(scratch[at.write + r + i]);
    if (p.two_strengths) {
      const F<W> erase = splat<W>(scratch[at.erase + r + i]) * decay;
      HJ_UNROLL
      for (int j = 0; j < N; ++j) {
        t.at[i][j] = write * load<W>(values + i * at.value_pitch + j * W) - erase * t.at[i][j];
      }
    } else {  // the difference first: where a key is written again it is small
      HJ_UNROLL
      for (int j = 0; j < N; ++j) {
        t.at[i][j] = write * (load<W>(values + i * at.value_pitch + j * W) - decay * t.at[i][j]);
      }
    }
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
HJ_INLINE void output_tile(const Problem& p, const float* query, int64_t r, int64_t column, const float* state,
                           float* scratch) {
  constexpr int W = I::W;
  const Layout& at = p.layout;
  float* outputs = scratch + at.outputs + r * at.value_pitch + column;
  Tile<W, I::N, R> t;
  clear(t);
  accumulate<false>(t, query + r * p.plan.key_dim, p.plan.key_dim, state, p.plan.key_dim);
  scale_rows(t, scratch + at.from_start + r);
  accumulate<false>(t, scratch + at.mix + r * at.pitch, at.pitch, scratch + at.update, r + R);
  HJ_UNROLL
  for (int i = 0; i < R; ++i) {
    HJ_UNROLL
    for (int j = 0; j < I::N; ++j) store<W>(outputs + i * at.value_pitch + j * W, t.at[i][j]);
  }
}

// S = decay S + K^T X.
template <class I>
HJ_INLINE void update_state(const Problem& p, int64_t rows, float* state, float* scratch) {
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
  over_rows<I::kTall, I::kShort>(p.plan.key_dim, [&](auto height, int64_t d) HJ_INLINE_LAMBDA {
    constexpr int R = decltype(height)::value;
    Tile<W, I::N, R> t;
    load_tile(t, state + d * I::kPanel);
    scale_rows(t, scratch + at.kept + d);
    accumulate<false>(t, scratch + at.key_t + d * at.pitch, at.pitch, x, rows);
    store_tile(state + d * I::kPanel, t);
  });
}

// Columns [column, column + kPanel) of the block.
template <class I>
HJ_INLINE void run_panel(const Problem& p, const PanelRows& of, int64_t rows, int64_t column, float* state,
                         float* scratch, Work* work) {
  const int64_t dim = p.plan.key_dim;
  int64_t depth = 0;  // multiply-accumulates per column
  over_rows<I::kTall, I::kShort>(rows, [&](auto height, int64_t r) HJ_INLINE_LAMBDA {
    constexpr int R = decltype(height)::value;
    solve_tile<I, R>(p, of.key, r, column, state, scratch);
    output_tile<I, R>(p, of.query, r, column, state, scratch);
    depth += R * (dim + r + R);
    if (p.delta) depth += R * (dim + r) + R * (R - 1) / 2;
  });
  update_state<I>(p, rows, state, scratch);
  depth += dim * rows;
  work->macs += depth * I::kPanel;
}

}  // namespace
}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_KERNELS_PANEL_H_
