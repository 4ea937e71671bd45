// A value head through a chunk on matrix tiles, its state as panels of columns: as panel.h, but only the triangles on
// the diagonal of the solve are done in floats.
//
// Products run in a unit of their own and take long, so what is elementwise with one result is written behind the
// instructions for the next: both are under way together.
#ifndef HAJAX_NATIVE_CPU_KERNELS_MATRIX_HEAD_H_
#define HAJAX_NATIVE_CPU_KERNELS_MATRIX_HEAD_H_

#include "native/cpu/kernels/matrix_chunk.h"
#include "native/cpu/kernels/panel.h"

namespace hajax::cpu {
namespace {

// issue(0), issue(1), finish(0), issue(2), finish(1), ..., finish(n - 1)
template <class Issue, class Finish>
HJ_INLINE void pipelined(int64_t n, const Issue& issue, const Finish& finish) {
  for (int64_t i = 0; i <= n; ++i) {
    if (i < n) issue(i);
    if (i > 0) finish(i - 1);
  }
}

// What a head has of each panel. Results are [rows, panel] floats, right operands parts of pairs.
struct Head {
  Columns columns;
  int64_t panels;
  int64_t padded;  // rows, to whole tiles
  float* states;   // [panels, dim, panel]
  uint32_t* state_parts;
};

HJ_INLINE Right panel_operand(uint32_t* base, int64_t panel, int64_t depth, int64_t width) {
  const int64_t part = depth / 2 * width;
  return {base + panel * kStateParts * part, width, part, kStateParts};
}
template <class I>
HJ_INLINE Right state_operand(const Problem& p, const Head& h, int64_t panel) {
  return panel_operand(h.state_parts, panel, p.layout.matrix_dim, I::kPanel);
}
template <class I>
HJ_INLINE Right solved_operand(const Problem& p, float* scratch, int64_t panel) {
  return panel_operand(place<uint32_t>(scratch, p.layout.update_parts), panel, p.layout.matrix_rows, I::kPanel);
}
template <class I>
HJ_INLINE Right decayed_operand(const Problem& p, float* scratch, int64_t panel) {
  return panel_operand(place<uint32_t>(scratch, p.layout.decayed_parts), panel, p.layout.matrix_rows, I::kPanel);
}
// Rows [first, ...) of a panel's X, and of its outputs.
template <class I>
HJ_INLINE float* update_rows(const Problem& p, float* scratch, int64_t panel, int64_t first) {
  return scratch + p.layout.update + (panel * p.layout.matrix_rows + first) * I::kPanel;
}
template <class I>
HJ_INLINE float* output_rows(const Problem& p, float* scratch, int64_t panel, int64_t first) {
  return scratch + p.layout.outputs + (panel * p.layout.matrix_rows + first) * I::kPanel;
}

// `Rows` rows of x, times a factor of each if there are any, into rows [first, ...) of an operand.
template <class I, int Rows>
HJ_INLINE void split_updates(const float* x, const float* factor, int64_t first, const Right& to) {
  constexpr int W = I::W;
  for (int r = 0; r < Rows; r += 2) {
    HJ_UNROLL
    for (int j = 0; j < I::N; ++j) {
      const float* at = x + r * I::kPanel + j * W;
      F<W> above = load<W>(at), below = load<W>(at + I::kPanel);
      if (factor != nullptr) {
        above *= splat<W>(factor[first + r]);
        below *= splat<W>(factor[first + r + 1]);
      }
      split_pairs<W, kStateParts>(above, below, to.at + (first + r) / 2 * to.pitch + j * W, to.stride);
    }
  }
}

// Rows [first, first + kPairRows) of a panel's state: decayed, with `more` added if there is any, and as parts.
template <class I>
HJ_INLINE void renew_state(const float* kept, const float* more, float* state, int64_t first, const Right& to) {
  constexpr int W = I::W;
  for (int64_t d = first; d < first + kPairRows; d += 2) {
    HJ_UNROLL
    for (int j = 0; j < I::N; ++j) {
      float* row = state + d * I::kPanel + j * W;
      F<W> above = load<W>(row), below = load<W>(row + I::kPanel);
      if (more != nullptr) {
        const float* add = more + (d - first) * I::kPanel + j * W;
        above = above * splat<W>(kept[d]) + load<W>(add);
        below = below * splat<W>(kept[d + 1]) + load<W>(add + I::kPanel);
        store<W>(row, above);
        store<W>(row + I::kPanel, below);
      }
      split_pairs<W, kStateParts>(above, below, to.at + d / 2 * to.pitch + j * W, to.stride);
    }
  }
}

// The parts of a state that was just packed.
template <class I>
HJ_INLINE void split_state(const Problem& p, const Head& h) {
  const int64_t dim = p.layout.matrix_dim;
  for (int64_t i = 0; i < h.panels; ++i) {
    for (int64_t d = 0; d < dim; d += kPairRows) {
      renew_state<I>(nullptr, nullptr, h.states + i * dim * I::kPanel, d, state_operand<I>(p, h, i));
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

// K S and Q S, and what follows from each at once: the right side of the solve, the output before its mix.
template <class I>
HJ_INLINE int64_t read_states(const Problem& p, const Span& s, const Head& h, float* scratch) {
  using M = typename I::Tiles;
  const Layout& at = p.layout;
  const Left key = rows_operand(p, scratch, at.key_parts);
  const Left query = rows_operand(p, scratch, at.query_parts);
  const int64_t blocks = h.padded / kPairRows;
  int64_t products = 0;
  const auto multiply = [&](const Left& rows, int64_t panel, int64_t precision, float* to) HJ_INLINE_LAMBDA {
    clear_sums<M, 2>();
    products += add_product<M, 2>(rows, state_operand<I>(p, h, panel), at.matrix_dim, precision);
    store_sums<M, 2>(to, I::kPanel);
  };
  pipelined(
      2 * blocks * h.panels,
      [&](int64_t i) HJ_INLINE_LAMBDA {
        const int64_t panel = i / (2 * blocks), first = i / 2 % blocks * kPairRows;
        if (i % 2 == 0) {
          if (p.delta) multiply(from_row(key, first), panel, kStateParts, update_rows<I>(p, scratch, panel, first));
        } else {
          multiply(from_row(query, first), panel, at.output_parts, output_rows<I>(p, scratch, panel, first));
        }
      },
      [&](int64_t i) HJ_INLINE_LAMBDA {
        const int64_t panel = i / (2 * blocks), first = i / 2 % blocks * kPairRows;
        if (i % 2 == 0) {
          stage_values<I>(p, rows_of(s, first), columns_of<I>(h.columns, panel), kPairRows, scratch);
          correct_rows<I>(p, scratch + at.values, first, update_rows<I>(p, scratch, panel, first), scratch);
        } else {
          scale_outputs<I>(scratch + at.query_scale + first, output_rows<I>(p, scratch, panel, first));
        }
      });
  return products;
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

// Rows [first, first + kPairRows) of X = (I + lower)^-1 x, as floats and as parts.
template <class I>
HJ_INLINE int64_t solve_rows(const Problem& p, const Head& h, int64_t first, float* scratch) {
  using M = typename I::Tiles;
  const Layout& at = p.layout;
  const Left lower = weights_operand(p, scratch, at.lower_parts, kStateParts);
  const float* triangle = scratch + at.lower + first * (at.pitch + 1);
  const int64_t second = first + kTileRows;
  int64_t products = 0;
  pipelined(
      h.panels,
      [&](int64_t i) HJ_INLINE_LAMBDA {
        if (first == 0) return;
        float* x = update_rows<I>(p, scratch, i, first);
        load_sums<M, 2>(x, I::kPanel);
        products += add_product<M, 2>(from_row(lower, first), solved_operand<I>(p, scratch, i), first, kStateParts);
        store_sums<M, 2>(x, I::kPanel);
      },
      [&](int64_t i) HJ_INLINE_LAMBDA {
        float* x = update_rows<I>(p, scratch, i, first);
        const Right solved = solved_operand<I>(p, scratch, i);
        substitute_rows<I>(triangle, at.pitch, x);
        split_updates<I, kTileRows>(x, nullptr, first, solved);
        // What comes next is as deep as two tiles are high: its other half is zero times what is not solved yet.
        zero_updates(solved, second);
      });
  pipelined(
      h.panels,
      [&](int64_t i) HJ_INLINE_LAMBDA {
        float* x = update_rows<I>(p, scratch, i, second);
        load_sums<M, 1>(x, I::kPanel);
        products += add_product<M, 1>(from_depth(from_row(lower, second), first),
                                      from_depth(solved_operand<I>(p, scratch, i), first), kTileDepth, kStateParts);
        store_sums<M, 1>(x, I::kPanel);
      },
      [&](int64_t i) HJ_INLINE_LAMBDA {
        float* x = update_rows<I>(p, scratch, i, second);
        substitute_rows<I>(triangle + kTileRows * (at.pitch + 1), at.pitch, x);
        split_updates<I, kTileRows>(x, nullptr, second, solved_operand<I>(p, scratch, i));
      });
  return products;
}

// Rows [first, first + kPairRows) of O = decay Q S + mix X.
template <class I>
HJ_INLINE int64_t mix_rows(const Problem& p, const Span& s, const Head& h, int64_t first, float* scratch) {
  using M = typename I::Tiles;
  const Layout& at = p.layout;
  const Left mix = weights_operand(p, scratch, at.mix_parts, at.output_parts);
  int64_t products = 0;
  pipelined(
      h.panels,
      [&](int64_t i) HJ_INLINE_LAMBDA {
        float* outputs = output_rows<I>(p, scratch, i, first);
        load_sums<M, 2>(outputs, I::kPanel);
        products += add_product<M, 2>(from_row(mix, first), solved_operand<I>(p, scratch, i), first + kPairRows,
                                      at.output_parts);
        store_sums<M, 2>(outputs, I::kPanel);
      },
      [&](int64_t i) HJ_INLINE_LAMBDA {
        const float* x = update_rows<I>(p, scratch, i, first);
        split_updates<I, kPairRows>(x, scratch + at.update_scale, first, decayed_operand<I>(p, scratch, i));
        const float* outputs = output_rows<I>(p, scratch, i, first);
        store_rows<I>(p, rows_of(s, first), columns_of<I>(h.columns, i), outputs, I::kPanel);
      });
  return products;
}

// S = decay S + K^T X.
template <class I>
HJ_INLINE int64_t update_states(const Problem& p, const Head& h, float* scratch) {
  using M = typename I::Tiles;
  const Layout& at = p.layout;
  const Left key_t = key_t_operand(p, scratch);
  const int64_t blocks = at.matrix_dim / kPairRows;
  const auto sums = [&](int64_t i) HJ_INLINE_LAMBDA { return scratch + at.sums + i % 2 * kPairRows * I::kPanel; };
  int64_t products = 0;
  pipelined(
      blocks * h.panels,
      [&](int64_t i) HJ_INLINE_LAMBDA {
        clear_sums<M, 2>();
        products += add_product<M, 2>(from_row(key_t, i % blocks * kPairRows),
                                      decayed_operand<I>(p, scratch, i / blocks), h.padded, kStateParts);
        store_sums<M, 2>(sums(i), I::kPanel);
      },
      [&](int64_t i) HJ_INLINE_LAMBDA {
        float* state = h.states + i / blocks * at.matrix_dim * I::kPanel;
        renew_state<I>(scratch + at.kept, sums(i), state, i % blocks * kPairRows, state_operand<I>(p, h, i / blocks));
      });
  return products;
}

template <class I>
HJ_INLINE void run_matrix_head(const Problem& p, const Span& s, const Head& h, float* scratch, Work* work) {
  int64_t products = read_states<I>(p, s, h, scratch);
  for (int64_t r = 0; r < h.padded; r += kPairRows) {
    if (p.delta) {
      products += solve_rows<I>(p, h, r, scratch);
    } else {
      for (int64_t i = 0; i < h.panels; ++i) {
        const float* x = update_rows<I>(p, scratch, i, r);
        split_updates<I, kPairRows>(x, nullptr, r, solved_operand<I>(p, scratch, i));
      }
    }
    products += mix_rows<I>(p, s, h, r, scratch);
  }
  products += update_states<I>(p, h, scratch);
  work->macs += products * kTileMacs;
}

}  // namespace
}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_KERNELS_MATRIX_HEAD_H_
