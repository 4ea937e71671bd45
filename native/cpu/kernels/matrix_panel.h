// What is elementwise with the rows of a panel on matrix tiles, in slices short enough to go between the instructions
// of a product.
#ifndef HAJAX_NATIVE_CPU_KERNELS_MATRIX_PANEL_H_
#define HAJAX_NATIVE_CPU_KERNELS_MATRIX_PANEL_H_

#include "native/cpu/kernels/matrix_chunk.h"
#include "native/cpu/kernels/panel.h"

namespace hajax::cpu {
namespace {

constexpr int64_t kSliceRows = 4;  // of a slice that does little with a row
constexpr int kEliminated = 8;     // of one that takes a tile's rows from others

// Rows [first, first + rows) of a span.
HJ_INLINE Span rows_of(const Span& s, int64_t first, int64_t rows) {
  const int64_t left = s.rows > first ? s.rows - first : 0;
  return {s.batch, s.first + first, left < rows ? left : rows, s.key_head};
}

// Two rows of a state as parts, after they were multiplied by `scale`.
template <class I>
HJ_SLICE void split_state_rows(float* state, float scale, int64_t row, const Right& to) {
  constexpr int W = I::W;
  HJ_UNROLL
  for (int j = 0; j < I::N; ++j) {
    float* at = state + row * I::kPanel + j * W;
    F<W> above = load<W>(at), below = load<W>(at + I::kPanel);
    if (scale != 1) {
      above *= splat<W>(scale);
      below *= splat<W>(scale);
      store<W>(at, above);
      store<W>(at + I::kPanel, below);
    }
    split_pairs<W, kStateParts>(above, below, to.at + row / 2 * to.pitch + j * W, to.stride);
  }
}

// Rows of x, which hold K S + (K K^T) X of the blocks before, become write V / decay - erase of that, times the key's
// norm.
template <class I>
HJ_SLICE void correct_rows(const Problem& p, const Span& s, const Columns& c, int64_t first, float* x, float* scratch) {
  constexpr int W = I::W;
  const Layout& at = p.layout;
  const bool whole = c.columns == I::kPanel && first + kSliceRows <= s.rows;
  const float* staged = scratch + at.values;
  if (!whole) stage_values<I>(p, rows_of(s, first, kSliceRows), c, kSliceRows, scratch);
  for (int64_t r = first; r < first + kSliceRows; ++r, staged += I::kPanel, x += I::kPanel) {
    const int64_t offset = head_offset(p, s, r, c.value_head) * p.plan.value_dim + c.first;
    const F<W> write = splat<W>(scratch[at.write_scale + r]);
    const F<W> value = splat<W>(scratch[at.value_scale + r]);
    const F<W> key = splat<W>(scratch[at.key_scale + r]);
    const F<W> erase = splat<W>(scratch[at.erase_scale + r]);
    HJ_UNROLL
    for (int j = 0; j < I::N; ++j) {
      const F<W> v = whole ? load_as<W>(p.plan.input_dtype, p.call.value, offset + j * W) : load<W>(staged + j * W);
      if (!p.delta) {
        store<W>(x + j * W, write * (value * v));
      } else if (p.two_strengths) {
        store<W>(x + j * W, write * (value * v) - erase * (key * load<W>(x + j * W)));
      } else {  // the difference first: where a key is written again it is small
        store<W>(x + j * W, write * (value * v - key * load<W>(x + j * W)));
      }
    }
  }
}

// Rows of x, one vector wide, less what the tile of rows above them contributes.
template <class I>
HJ_SLICE void eliminate_rows(const float* lower, int64_t pitch, const float* above, float* x) {
  constexpr int W = I::W;
  Tile<W, 1, kEliminated> t;
  HJ_UNROLL
  for (int i = 0; i < kEliminated; ++i) t.at[i][0] = load<W>(x + i * I::kPanel);
  HJ_UNROLL
  for (int k = 0; k < kTileRows; ++k) {
    const F<W> row = load<W>(above + k * I::kPanel);
    HJ_UNROLL
    for (int i = 0; i < kEliminated; ++i) t.at[i][0] -= splat<W>(lower[i * pitch + k]) * row;
  }
  HJ_UNROLL
  for (int i = 0; i < kEliminated; ++i) store<W>(x + i * I::kPanel, t.at[i][0]);
}

// Forward substitution in a tile's rows of x, one vector wide; `lower` is their triangle, on the diagonal.
template <class I>
HJ_SLICE void substitute_rows(const float* lower, int64_t pitch, float* x) {
  constexpr int W = I::W;
  Tile<W, 1, static_cast<int>(kTileRows)> t;
  HJ_UNROLL
  for (int i = 0; i < kTileRows; ++i) t.at[i][0] = load<W>(x + i * I::kPanel);
  substitute<1>(t, lower, pitch);
  HJ_UNROLL
  for (int i = 0; i < kTileRows; ++i) store<W>(x + i * I::kPanel, t.at[i][0]);
}

// Two rows of X as parts.
template <class I>
HJ_SLICE void split_update_rows(const float* x, int64_t row, const Right& to) {
  HJ_UNROLL
  for (int j = 0; j < I::N; ++j) {
    const float* at = x + j * I::W;
    split_pairs<I::W, kStateParts>(load<I::W>(at), load<I::W>(at + I::kPanel), to.at + row / 2 * to.pitch + j * I::W,
                                   to.stride);
  }
}

// Rows of O out to the caller's array.
template <class I>
HJ_SLICE void finish_rows(const Problem& p, const Span& s, const Columns& c, int64_t first, const float* outputs,
                          const float* scratch) {
  constexpr int W = I::W;
  const float* scale = scratch + p.layout.query_scale + first;
  const bool whole = c.columns == I::kPanel && first + kSliceRows <= s.rows;
  float rows[kSliceRows * I::kPanel];
  HJ_UNROLL
  for (int64_t r = 0; r < kSliceRows; ++r) {
    const int64_t offset = head_offset(p, s, first + r, c.value_head) * p.plan.value_dim + c.first;
    HJ_UNROLL
    for (int j = 0; j < I::N; ++j) {
      const int64_t at = r * I::kPanel + j * W;
      const F<W> output = load<W>(outputs + at) * splat<W>(scale[r]);
      if (whole) {
        store_as<W>(p.plan.output_dtype, p.call.output, offset + j * W, output);
      } else {
        store<W>(rows + at, output);
      }
    }
  }
  if (!whole) store_rows<I>(p, rows_of(s, first, kSliceRows), c, rows, I::kPanel);
}

}  // namespace
}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_KERNELS_MATRIX_PANEL_H_
