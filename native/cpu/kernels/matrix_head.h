// A value head through a chunk on matrix tiles, its state as panels of columns: as panel.h, but only the triangles on
// the diagonal of the solve are done in floats.
//
// What is elementwise with one product's results is woven into another product. All that a panel writes, but for its
// state, stays in the first-level cache: to write a line that has left it takes as long as a product of tiles.
#ifndef HAJAX_NATIVE_CPU_KERNELS_MATRIX_HEAD_H_
#define HAJAX_NATIVE_CPU_KERNELS_MATRIX_HEAD_H_

#include "native/cpu/kernels/matrix_panel.h"

namespace hajax::cpu {
namespace {

// A value head's block of columns.
struct Head {
  Columns columns;
  bool first;  // of its key head
  int64_t panels;
  int64_t padded;  // rows, to whole tiles
  float* states;   // [panels, dim, panel]
  float scale;     // what the states are to be multiplied by
};

// Columns of the head and their state.
struct Panel {
  int64_t index;
  Columns columns;
  float* state;  // [dim, panel]
};

template <class I>
struct MatrixHead {
  using M = typename I::Tiles;

  const Problem& p;
  const Span& s;
  const Head& head;
  float* scratch;
  Left key = rows_operand(p, scratch, p.layout.key_parts);
  Left query = rows_operand(p, scratch, p.layout.query_parts);
  Left key_t = key_t_operand(p, scratch);
  Left lower = weights_operand(p, scratch, p.layout.lower_parts, kStateParts);
  Left mix = weights_operand(p, scratch, p.layout.mix_parts, p.layout.output_parts);
  Right state = right_operand(p.layout.state_parts, p.layout.matrix_dim);      // of the panel in work
  Right updates = right_operand(p.layout.update_parts, p.layout.matrix_rows);  // X
  float* rows = scratch + p.layout.update;  // [rows, panel] K S and then X; once X is in parts, Q S and then O
  int64_t products = 0;

  HJ_INLINE Right right_operand(int64_t at, int64_t depth) const {
    return {place<uint32_t>(scratch, at), I::kPanel, depth / 2 * I::kPanel, kStateParts};
  }
  HJ_INLINE float* row(int64_t r) const { return rows + r * I::kPanel; }
  HJ_INLINE Panel panel_of(int64_t i) const {
    const int64_t first = i * I::kPanel, left = head.columns.columns - first;
    return {i,
            {head.columns.value_head, head.columns.first + first, left < I::kPanel ? left : I::kPanel},
            head.states + i * p.layout.matrix_dim * I::kPanel};
  }

  // Elementwise work, for products to carry. First: the parts of pairs [first, end) of a state's rows.
  HJ_INLINE auto splitting(const Panel* panel, int64_t first, int64_t end) const {
    return beside(panel != nullptr ? end - first : 0, [=](int64_t i) HJ_INLINE_LAMBDA {
      split_state_rows<I>(panel->state, head.scale, 2 * (first + i), state);
    });
  }
  // O out to the caller's array.
  HJ_INLINE auto finishing(const Panel* panel) const {
    return beside(panel != nullptr ? head.padded / kSliceRows : 0, [=](int64_t i) HJ_INLINE_LAMBDA {
      finish_rows<I>(p, s, panel->columns, i * kSliceRows, row(i * kSliceRows), scratch);
    });
  }
  HJ_INLINE auto prefetching(const Panel& panel) const {
    const int64_t part = panel.index * kPrefetches;
    return beside(kPrefetches, [=](int64_t i) HJ_INLINE_LAMBDA {
      prefetch_next(p, s, head.columns, head.first, part + i, head.panels * kPrefetches);
    });
  }
  // Slices [first, end) of kSolveSlices, which make X and its parts of a block of rows.
  HJ_INLINE auto solving(const Panel& panel, int64_t block, int64_t first, int64_t end) const {
    return beside(end - first, [=](int64_t i) HJ_INLINE_LAMBDA { solve_slice(panel, block, first + i); });
  }
  HJ_INLINE void solve_slice(const Panel& panel, int64_t block, int64_t i) const {
    const int64_t pitch = p.layout.pitch;
    const bool below = i >= kUpperSlices;
    if (below) i -= kUpperSlices;
    const int64_t first = below ? block + kTileRows : block;
    const float* triangle = scratch + p.layout.lower + first * (pitch + 1);
    if (i < kCorrections) {
      return correct_rows<I>(p, s, panel.columns, first + i * kSliceRows, row(first + i * kSliceRows), scratch);
    }
    i -= kCorrections;
    if (below && i < kEliminations) {
      const int64_t r = i / I::N * kEliminated, column = i % I::N * I::W;
      if (!p.delta) return;
      return eliminate_rows<I>(triangle + r * pitch - kTileRows, pitch, row(block) + column, row(first + r) + column);
    }
    if (below) i -= kEliminations;
    if (i < I::N) {
      if (p.delta) substitute_rows<I>(triangle, pitch, row(first) + i * I::W);
      return;
    }
    i -= I::N;
    for (int64_t r = first + i * kSliceRows; r < first + (i + 1) * kSliceRows; r += 2) {
      split_update_rows<I>(row(r), r, updates);
    }
  }
  static constexpr int64_t kSlicesRest = 16;
  static constexpr int64_t kPrefetches = 8;
  static constexpr int64_t kCorrections = kTileRows / kSliceRows;
  static constexpr int64_t kUpperSlices = 2 * kCorrections + I::N;
  static constexpr int64_t kEliminations = kTileRows / kEliminated * I::N;
  static constexpr int64_t kSolveSlices = 2 * kUpperSlices + kEliminations;

  // The products of a panel, of a block of rows each.
  template <class Body>
  HJ_INLINE void erase(int64_t block, const Beside<Body>& work) {  // K S
    if (!p.delta) return run<M>(work, kSlicesRest);
    products += multiply<M>(from_row(key, block), state, p.layout.matrix_dim, kStateParts, row(block), I::kPanel, work);
  }
  HJ_INLINE void erase_updates(int64_t block) {  // + (K K^T) X
    if (!p.delta) return;
    products +=
        multiply_onto<M>(from_row(lower, block), updates, block, kStateParts, row(block), I::kPanel, beside_nothing());
  }
  template <class Body>
  HJ_INLINE void query_state(int64_t block, const Beside<Body>& work) {  // Q S
    products += multiply<M>(from_row(query, block), state, p.layout.matrix_dim, p.layout.output_parts, row(block),
                            I::kPanel, work);
  }
  HJ_INLINE void query_updates(int64_t block) {  // + (Q K^T) X
    products += multiply_onto<M>(from_row(mix, block), updates, block + kPairRows, p.layout.output_parts, row(block),
                                 I::kPanel, beside_nothing());
  }

  // X = write V - erase (K S + (K K^T) X): a block of rows is solved beside the products of the next one, the last
  // beside Q S.
  HJ_INLINE void solve(const Panel& panel, const Panel* before) {
    const int64_t blocks = head.padded / kPairRows, last = head.padded - kPairRows;
    erase(0, followed_by(finishing(before), prefetching(panel)));
    for (int64_t block = 0; block < last; block += kPairRows) {
      erase(block + kPairRows, solving(panel, block, 0, kSolveSlices));
      erase_updates(block + kPairRows);
    }
    for (int64_t i = 0; i < blocks; ++i) {
      query_state(i * kPairRows, solving(panel, last, i * kSolveSlices / blocks, (i + 1) * kSolveSlices / blocks));
    }
    for (int64_t block = 0; block < head.padded; block += kPairRows) query_updates(block);
  }

  // S += K^T X, beside which the next panel's state is cut into parts.
  HJ_INLINE void update(const Panel& panel, const Panel* next) {
    for (int64_t d = 0; d < p.layout.matrix_dim; d += kPairRows) {
      products += multiply_onto<M>(from_row(key_t, d), updates, head.padded, kStateParts, panel.state + d * I::kPanel,
                                   I::kPanel, splitting(next, d / 2, (d + kPairRows) / 2));
    }
  }

  HJ_INLINE void go() {
    Panel before = {}, panel = panel_of(0);
    M::stay_awake();
    run<M>(splitting(&panel, 0, p.layout.matrix_dim / 2), kSlicesRest);
    for (int64_t i = 0; i < head.panels; ++i) {
      const Panel next = panel_of(i + 1);
      solve(panel, i > 0 ? &before : nullptr);
      update(panel, i + 1 < head.panels ? &next : nullptr);
      before = panel;
      panel = next;
    }
    run<M>(finishing(&before), kSlicesRest);
    M::stay_awake();
  }
};

template <class I>
HJ_INLINE void run_matrix_head(const Problem& p, const Span& s, const Head& h, float* scratch, Work* work) {
  MatrixHead<I> head = {p, s, h, scratch};
  head.go();
  work->macs += head.products * kTileMacs;
}

}  // namespace
}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_KERNELS_MATRIX_HEAD_H_
