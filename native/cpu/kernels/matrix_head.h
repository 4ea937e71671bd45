// A value head through a chunk on matrix tiles, its state as panels of columns: as panel.h, but only the triangles on
// the diagonal of the solve are done in floats.
//
// Products run in a unit of their own and take long, so what is elementwise with one result is written behind the
// instructions for another: both are under way together. A panel's operands stay in the first-level cache.
#ifndef HAJAX_NATIVE_CPU_KERNELS_MATRIX_HEAD_H_
#define HAJAX_NATIVE_CPU_KERNELS_MATRIX_HEAD_H_

#include "native/cpu/kernels/matrix_chunk.h"
#include "native/cpu/kernels/panel.h"

namespace hajax::cpu {
namespace {

// A value head's block of columns.
struct Head {
  Columns columns;
  bool first;  // of its key head
  int64_t panels;
  int64_t padded;  // rows, to whole tiles
  float* states;   // [panels, dim, panel]
};

// Right operands of a panel.
HJ_INLINE Right panel_operand(float* scratch, int64_t at, int64_t depth, int64_t panel) {
  return {place<uint32_t>(scratch, at), panel, depth / 2 * panel, kStateParts};
}

// Rows [first, first + kTileRows) of X, as they are and decayed to the chunk's end.
template <class I>
HJ_INLINE void split_updates(const float* x, const float* factor, int64_t first, const Right& solved,
                             const Right& decayed) {
  constexpr int W = I::W;
  for (int64_t r = 0; r < kTileRows; r += 2) {
    const F<W> above_factor = splat<W>(factor[first + r]), below_factor = splat<W>(factor[first + r + 1]);
    HJ_UNROLL
    for (int j = 0; j < I::N; ++j) {
      const float* at = x + r * I::kPanel + j * W;
      const F<W> above = load<W>(at), below = load<W>(at + I::kPanel);
      const int64_t to = (first + r) / 2 * I::kPanel + j * W;
      split_pairs<W, kStateParts>(above, below, solved.at + to, solved.stride);
      split_pairs<W, kStateParts>(above * above_factor, below * below_factor, decayed.at + to, decayed.stride);
    }
  }
}

// Rows [first, first + kPairRows) of a state as parts.
template <class I>
HJ_INLINE void split_state(const float* state, int64_t first, const Right& to) {
  for (int64_t d = first; d < first + kPairRows; d += 2) {
    HJ_UNROLL
    for (int j = 0; j < I::N; ++j) {
      const float* row = state + d * I::kPanel + j * I::W;
      split_pairs<I::W, kStateParts>(load<I::W>(row), load<I::W>(row + I::kPanel), to.at + d / 2 * to.pitch + j * I::W,
                                     to.stride);
    }
  }
}

// Rows [first, first + kPairRows) of a state, decayed, with `more` added.
template <class I>
HJ_INLINE void renew_state(const float* kept, const float* more, int64_t first, float* state) {
  for (int64_t d = first; d < first + kPairRows; ++d, more += I::kPanel) {
    HJ_UNROLL
    for (int j = 0; j < I::N; ++j) {
      float* row = state + d * I::kPanel + j * I::W;
      store<I::W>(row, load<I::W>(row) * splat<I::W>(kept[d]) + load<I::W>(more + j * I::W));
    }
  }
}

// x, which holds K S, becomes write V - erase decay K S, the right side of the solve.
template <class I>
HJ_INLINE void correct_rows(const Problem& p, const float* values, int64_t first, float* x, const float* scratch) {
  constexpr int W = I::W;
  const Layout& at = p.layout;
  for (int64_t r = first; r < first + kPairRows; ++r, values += I::kPanel, x += I::kPanel) {
    const F<W> write = splat<W>(scratch[at.write + r]);
    const F<W> scale = splat<W>(scratch[at.key_scale + r]);
    const F<W> erase = splat<W>(scratch[at.erase + r]) * scale;
    HJ_UNROLL
    for (int j = 0; j < I::N; ++j) {
      const F<W> v = load<W>(values + j * W);
      if (!p.delta) {
        store<W>(x + j * W, write * v);
      } else if (p.two_strengths) {
        store<W>(x + j * W, write * v - erase * load<W>(x + j * W));
      } else {  // the difference first: where a key is written again it is small
        store<W>(x + j * W, write * (v - scale * load<W>(x + j * W)));
      }
    }
  }
}

template <class I>
HJ_INLINE void scale_outputs(const float* factor, float* outputs) {
  for (int64_t r = 0; r < kPairRows; ++r, outputs += I::kPanel) {
    HJ_UNROLL
    for (int j = 0; j < I::N; ++j)
      store<I::W>(outputs + j * I::W, load<I::W>(outputs + j * I::W) * splat<I::W>(factor[r]));
  }
}

// Rows [first, first + kPairRows) of the chunk, and the columns of a panel.
HJ_INLINE Span rows_of(const Span& s, int64_t first) {
  return {s.batch, s.first + first, s.rows - first < kPairRows ? s.rows - first : kPairRows, s.key_head};
}
template <class I>
HJ_INLINE Columns columns_of(const Columns& c, int64_t panel) {
  const int64_t left = c.columns - panel * I::kPanel;
  return {c.value_head, c.first + panel * I::kPanel, left < I::kPanel ? left : I::kPanel};
}

// Forward substitution in a tile's rows of x; `lower` is the triangle on the diagonal.
template <class I>
HJ_INLINE void substitute_rows(const float* lower, int64_t pitch, float* x) {
  constexpr int W = I::W;
  HJ_UNROLL
  for (int j = 0; j < I::N; ++j) {
    Tile<W, 1, static_cast<int>(kTileRows)> t;
    HJ_UNROLL
    for (int i = 0; i < kTileRows; ++i) t.at[i][0] = load<W>(x + i * I::kPanel + j * W);
    substitute<1>(t, lower, pitch);
    HJ_UNROLL
    for (int i = 0; i < kTileRows; ++i) store<W>(x + i * I::kPanel + j * W, t.at[i][0]);
  }
}

HJ_INLINE void zero_updates(const Right& to, int64_t first) {
  for (int64_t i = 0; i < to.parts; ++i) {
    __builtin_memset(to.at + i * to.stride + first / 2 * to.pitch, 0,
                     static_cast<uint64_t>(kTileRows / 2 * to.pitch) * sizeof(uint32_t));
  }
}

// A panel in work: its operands, and its rows as floats.
struct Panel {
  Span span;
  Columns columns;
  int64_t padded;
  Right state, solved, decayed;
  float* x;  // [rows, panel]
};

// X = (I + lower)^-1 (write V - erase decay K S) and O = decay Q S + mix X, in blocks of rows.
template <class I>
HJ_INLINE int64_t run_blocks(const Problem& p, const Panel& panel, float* scratch) {
  using M = typename I::Tiles;
  const Layout& at = p.layout;
  const Left key = rows_operand(p, scratch, at.key_parts);
  const Left query = rows_operand(p, scratch, at.query_parts);
  const Left lower = weights_operand(p, scratch, at.lower_parts, kStateParts);
  const Left mix = weights_operand(p, scratch, at.mix_parts, at.output_parts);
  const float* factor = scratch + at.update_scale;
  const auto outputs_of = [&](int64_t first) HJ_INLINE_LAMBDA {
    return scratch + at.outputs + first / kPairRows % 2 * kPairRows * I::kPanel;
  };
  const auto finish = [&](int64_t first) HJ_INLINE_LAMBDA {
    store_rows<I>(p, rows_of(panel.span, first), panel.columns, outputs_of(first), I::kPanel);
  };
  int64_t products = 0;
  for (int64_t r = 0; r <= panel.padded; r += kPairRows) {
    if (r < panel.padded && p.delta) {
      products +=
          multiply<M>(from_row(key, r), panel.state, at.matrix_dim, kStateParts, panel.x + r * I::kPanel, I::kPanel);
    }
    if (r == 0) continue;
    const int64_t done = r - kPairRows;
    stage_values<I>(p, rows_of(panel.span, done), panel.columns, kPairRows, scratch);
    correct_rows<I>(p, scratch + at.values, done, panel.x + done * I::kPanel, scratch);
  }
  for (int64_t first = 0; first < panel.padded; first += kPairRows) {
    const int64_t second = first + kTileRows;
    const float* triangle = scratch + at.lower + first * (at.pitch + 1);
    float* upper_x = panel.x + first * I::kPanel;
    float* lower_x = panel.x + second * I::kPanel;
    float* outputs = outputs_of(first);
    if (p.delta && first > 0) {
      products += multiply_onto<M, 2>(from_row(lower, first), panel.solved, first, kStateParts, upper_x, I::kPanel);
    }
    products += multiply<M>(from_row(query, first), panel.state, at.matrix_dim, at.output_parts, outputs, I::kPanel);
    if (first > 0) finish(first - kPairRows);
    if (p.delta) substitute_rows<I>(triangle, at.pitch, upper_x);
    split_updates<I>(upper_x, factor, first, panel.solved, panel.decayed);
    if (p.delta) {
      // As deep as two tiles are high: the product's other half is zero times what is not solved yet.
      zero_updates(panel.solved, second);
      products += multiply_onto<M, 1>(from_depth(from_row(lower, second), first), from_depth(panel.solved, first),
                                      kTileDepth, kStateParts, lower_x, I::kPanel);
    }
    scale_outputs<I>(scratch + at.query_scale + first, outputs);
    if (p.delta) substitute_rows<I>(triangle + kTileRows * (at.pitch + 1), at.pitch, lower_x);
    split_updates<I>(lower_x, factor, second, panel.solved, panel.decayed);
    products +=
        multiply_onto<M, 2>(from_row(mix, first), panel.solved, first + kPairRows, at.output_parts, outputs, I::kPanel);
  }
  finish(panel.padded - kPairRows);
  return products;
}

// S = decay S + K^T X for one panel's state, and the next one's parts, where there are such.
template <class I>
HJ_INLINE int64_t update_state(const Problem& p, int64_t padded, const Right& decayed, float* state, const float* next,
                               const Right& parts, float* scratch) {
  using M = typename I::Tiles;
  const Layout& at = p.layout;
  const Left key_t = key_t_operand(p, scratch);
  const auto sums = [&](int64_t d)
                        HJ_INLINE_LAMBDA { return scratch + at.sums + d / kPairRows % 2 * kPairRows * I::kPanel; };
  int64_t products = 0;
  for (int64_t d = 0; d <= at.matrix_dim; d += kPairRows) {
    if (d < at.matrix_dim) {
      if (state != nullptr)
        products += multiply<M>(from_row(key_t, d), decayed, padded, kStateParts, sums(d), I::kPanel);
      if (next != nullptr) split_state<I>(next, d, parts);
    }
    const int64_t done = d - kPairRows;
    if (d > 0 && state != nullptr) renew_state<I>(scratch + at.kept, sums(done), done, state);
  }
  return products;
}

template <class I>
HJ_INLINE void run_matrix_head(const Problem& p, const Span& s, const Head& h, float* scratch, Work* work) {
  const Layout& at = p.layout;
  const Right state = panel_operand(scratch, at.state_parts, at.matrix_dim, I::kPanel);
  const Right solved = panel_operand(scratch, at.update_parts, at.matrix_rows, I::kPanel);
  const Right decayed = panel_operand(scratch, at.decayed_parts, at.matrix_rows, I::kPanel);
  const int64_t floats = at.matrix_dim * I::kPanel;
  int64_t products = 0;
  for (int64_t i = 0; i <= h.panels; ++i) {
    prefetch_next(p, s, h.columns, h.first, i, h.panels + 1);
    float* before = i > 0 ? h.states + (i - 1) * floats : nullptr;
    const float* now = i < h.panels ? h.states + i * floats : nullptr;
    products += update_state<I>(p, h.padded, decayed, before, now, state, scratch);
    if (now == nullptr) break;
    const Panel panel = {s, columns_of<I>(h.columns, i), h.padded, state, solved, decayed, scratch + at.update};
    products += run_blocks<I>(p, panel, scratch);
  }
  work->macs += products * kTileMacs;
}

}  // namespace
}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_KERNELS_MATRIX_HEAD_H_
