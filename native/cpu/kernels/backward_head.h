// One value head's part of a chunk, forth and back. With G the sums of log decays from the chunk's start, D_ij =
// e^(G_i - G_j) for j <= i, M and P the decayed products of keys with keys (j < i) and of queries with keys (j <= i):
//
//   U = e^G K S + M X,  X = write V - erase U,  O = e^G Q S + P X,  S' = e^(G_C) S + (e^(G_C - G) K)^T X
//
// and backwards, dY the gradient of Y:
//
//   dX = P^T dO + e^(G_C - G) K dS' + M^T dU with dU = -erase dX: forward substitution turned round,
//   dP = dO X^T,  dM = dU X^T,  dS = e^(G_C) dS' + (e^G Q)^T dO + (e^G K)^T dU.
#ifndef HAJAX_NATIVE_CPU_KERNELS_BACKWARD_HEAD_H_
#define HAJAX_NATIVE_CPU_KERNELS_BACKWARD_HEAD_H_

#include "native/cpu/backward_problem.h"
#include "native/cpu/kernels/panel.h"
#include "native/cpu/kernels/product.h"
#include "native/cpu/kernels/weights.h"

namespace hajax::cpu {
namespace {

// Scratch as matrices.
struct Parts {
  const BackwardProblem& b;
  float* scratch;

  HJ_INLINE Matrix by_value(int64_t offset) const { return {scratch + offset, b.at.wide_value}; }
  HJ_INLINE Matrix by_key(int64_t offset) const { return {scratch + offset, b.at.wide_key}; }
  HJ_INLINE Matrix by_token(int64_t offset) const { return {scratch + offset, b.forward.layout.pitch}; }
  HJ_INLINE Matrix raw_key(int64_t offset) const { return {scratch + offset, b.forward.plan.key_dim}; }
  HJ_INLINE float* vector(int64_t offset) const { return scratch + offset; }
};

// Rows of [B, T, Hv, Dv] as floats; columns up to a whole panel and the rows that tiles overshoot into become zero.
template <class I>
void stage_rows(const Problem& p, const Span& s, int64_t value_head, int32_t dtype, const void* from,
                const Matrix& to) {
  const int64_t dim = p.plan.value_dim;
  for (int64_t r = 0; r < s.rows; ++r) {
    const int64_t offset = head_offset(p, s, r, value_head) * dim;
    float* row = to.row(r);
    over_columns<I::W>(dim, [&](auto width, int64_t j) HJ_INLINE_LAMBDA {
      constexpr int V = decltype(width)::value;
      store<V>(row + j, load_as<V>(dtype, from, offset + j));
    });
    for (int64_t j = dim; j < round_up(dim, I::kPanel); ++j) row[j] = 0;
  }
  clear_rows(to, s.rows, kRowSlack);
}

// lower = (K K^T) decay below the diagonal, mix = (Q K^T) decay up to it, ratio = decay, zero elsewhere. As
// triangular_weights, which has erase in the first and does not keep the last. Without Decayed all decay is 1.
template <class I, bool Decayed>
void decayed_scores(const Parts& m, int64_t rows) {
  constexpr int W = I::W;
  using Int = typename VecOf<W>::I;
  const Problem& p = m.b.forward;
  const Layout& at = p.layout;
  float* segment = m.vector(at.segment);
  if constexpr (Decayed) {
    for (int64_t c = 0; c < at.pitch; c += W) store<W>(segment + c, F<W>{});
  }
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t row = i * at.pitch;
    const int64_t end = round_up(i + kRowSlack, W);
    for (int64_t c = 0; c < end; c += W) {
      const Int column = iota<W>() + static_cast<int32_t>(c);
      const Int before = column < static_cast<int32_t>(i);
      const Int upto = column <= static_cast<int32_t>(i);
      F<W> decay = splat<W>(1.0f);
      if constexpr (Decayed) {
        F<W> sums = load<W>(segment + c);
        sums += before ? splat<W>(m.scratch[at.log_decay + i]) : F<W>{};
        store<W>(segment + c, sums);
        decay = exp_nonpositive<W>(sums);
        store<W>(m.scratch + m.b.at.ratio + row + c, upto ? decay : F<W>{});
      }
      if (p.delta)
        store<W>(m.scratch + at.lower + row + c, before ? load<W>(m.scratch + at.kk + row + c) * decay : F<W>{});
      store<W>(m.scratch + at.mix + row + c, upto ? load<W>(m.scratch + at.qk + row + c) * decay : F<W>{});
    }
  }
  clear_rows(m.by_token(at.lower), rows, kRowSlack);
  clear_rows(m.by_token(at.mix), rows, kRowSlack);
}

// U and X of row I of a tile that holds U less what the rows of the tile above it add, then the rows below.
template <class I, int Row, int R>
HJ_INLINE void known_rows(const Parts& m, Tile<I::W, I::N, R>& t, int64_t r, int64_t c) {
  if constexpr (Row < R) {
    constexpr int W = I::W;
    const Problem& p = m.b.forward;
    const F<W> write = splat<W>(m.scratch[p.layout.write + r + Row]);
    const F<W> erase = splat<W>(m.scratch[p.layout.erase + r + Row]);
    const float* values = m.by_value(m.b.at.values).row(r + Row) + c;
    float* known = m.by_value(m.b.at.known).row(r + Row) + c;
    float* update = m.by_value(m.b.at.update).row(r + Row) + c;
    F<W> x[I::N];
    HJ_UNROLL
    for (int j = 0; j < I::N; ++j) {
      const F<W> v = load<W>(values + j * W);
      const F<W> u = t.at[Row][j];
      // With one strength the difference first: where a key is written again it is small.
      x[j] = p.two_strengths ? write * v - erase * u : write * (v - u);
      store<W>(known + j * W, u);
      store<W>(update + j * W, x[j]);
    }
    const float* lower = m.scratch + p.layout.lower + r * p.layout.pitch + r;
    HJ_UNROLL
    for (int k = Row + 1; k < R; ++k) {
      const F<W> factor = splat<W>(lower[k * p.layout.pitch + Row]);
      HJ_UNROLL
      for (int j = 0; j < I::N; ++j) t.at[k][j] += factor * x[j];
    }
    known_rows<I, Row + 1, R>(m, t, r, c);
  }
}

// U and X of all columns.
template <class I>
void solve_updates(const Parts& m, const Matrix& key, const Matrix& state, int64_t rows) {
  const Problem& p = m.b.forward;
  const Matrix update = m.by_value(m.b.at.update);
  for (int64_t c = 0; c < p.plan.value_dim; c += I::kPanel) {
    over_rows<I::kTall, I::kShort>(rows, [&](auto height, int64_t r) HJ_INLINE_LAMBDA {
      constexpr int R = decltype(height)::value;
      Tile<I::W, I::N, R> t;
      clear(t);
      if (p.delta) {
        accumulate_rows(t, key.from(r, 0), state.from(0, c), p.plan.key_dim);
        scale_rows(t, m.scratch + p.layout.from_start + r);
        accumulate_rows(t, m.by_token(p.layout.lower).from(r, 0), update.from(0, c), r);
        known_rows<I, 0, R>(m, t, r, c);
      } else {
        load_strided(t, m.by_value(m.b.at.values).row(r) + c, m.b.at.wide_value);
        scale_rows(t, m.scratch + p.layout.write + r);
        store_strided(update.row(r) + c, update.pitch, t);
      }
    });
  }
}

// S' = kept S + K^T (to_end X); leaves to_end X in X's place. `to` may be `state`.
template <class I>
void advance_state(const Parts& m, int64_t rows, const Matrix& state, const Matrix& to) {
  const Problem& p = m.b.forward;
  const Matrix update = m.by_value(m.b.at.update);
  const int64_t columns = round_up(p.plan.value_dim, I::kPanel);
  if (p.decay == kDecay_scalar) {
    for (int64_t r = 0; r < rows; ++r) scale_row<I>(update.row(r), m.scratch[p.layout.to_end + r], columns);
  }
  for (int64_t c = 0; c < columns; c += I::kPanel) {
    over_rows<I::kTall, I::kShort>(p.plan.key_dim, [&](auto height, int64_t d) HJ_INLINE_LAMBDA {
      Tile<I::W, I::N, decltype(height)::value> t;
      load_strided(t, state.row(d) + c, state.pitch);
      scale_rows(t, m.scratch + p.layout.kept + d);
      accumulate_rows(t, m.by_token(p.layout.key_t).from(d, 0), update.from(0, c), rows);
      store_strided(to.row(d) + c, to.pitch, t);
    });
  }
}

// Row of a tile that holds dX less what the rows of the tile below it add; then the rows above.
template <class I, int Row, int R>
HJ_INLINE void d_known_rows(const Parts& m, Tile<I::W, I::N, R>& t, int64_t r, int64_t c) {
  if constexpr (Row >= 0) {
    constexpr int W = I::W;
    const Layout& at = m.b.forward.layout;
    const F<W> erase = splat<W>(-m.scratch[at.erase + r + Row]);
    float* d_known = m.by_value(m.b.at.d_known).row(r + Row) + c;
    F<W> u[I::N];
    HJ_UNROLL
    for (int j = 0; j < I::N; ++j) {
      u[j] = erase * t.at[Row][j];
      store<W>(d_known + j * W, u[j]);
    }
    const float* lower = m.scratch + at.lower + (r + Row) * at.pitch + r;
    HJ_UNROLL
    for (int k = 0; k < Row; ++k) {
      const F<W> factor = splat<W>(lower[k]);
      HJ_UNROLL
      for (int j = 0; j < I::N; ++j) t.at[k][j] += factor * u[j];
    }
    d_known_rows<I, Row - 1, R>(m, t, r, c);
  }
}

// dX and dU of all columns.
template <class I>
void solve_d_updates(const Parts& m, const Matrix& d_state, int64_t rows) {
  const Problem& p = m.b.forward;
  const Matrix d_update = m.by_value(m.b.at.d_update), d_known = m.by_value(m.b.at.d_known);
  const Matrix d_output = m.by_value(m.b.at.d_output);
  const Matrix lower = m.by_token(p.layout.lower), mix = m.by_token(p.layout.mix), key_t = m.by_token(p.layout.key_t);
  for (int64_t c = 0; c < p.plan.value_dim; c += I::kPanel) {
    over_rows_upwards<I::kTall, I::kShort>(rows, [&](auto height, int64_t r) HJ_INLINE_LAMBDA {
      constexpr int R = decltype(height)::value;
      Tile<I::W, I::N, R> t;
      clear(t);
      accumulate_transposed(t, key_t.from(0, r), d_state.from(0, c), p.plan.key_dim);
      scale_rows(t, m.scratch + p.layout.to_end + r);
      accumulate_transposed(t, mix.from(r, r), d_output.from(r, c), rows - r);
      if (p.delta) {
        accumulate_transposed(t, lower.from(r + R, r), d_known.from(r + R, c), rows - r - R);
        d_known_rows<I, R - 1, R>(m, t, r, c);
      }
      store_strided(d_update.row(r) + c, d_update.pitch, t);
    });
  }
}

// dS = kept dS' + Q^T dO + K^T dU in the place of dS', with both cotangents decayed from the chunk's start.
template <class I>
void retreat_state(const Parts& m, const Matrix& key, const Matrix& query, int64_t rows, const Matrix& d_state) {
  const Problem& p = m.b.forward;
  const Matrix d_known = m.by_value(m.b.at.d_known), d_output = m.by_value(m.b.at.d_output);
  for (int64_t c = 0; c < p.plan.value_dim; c += I::kPanel) {
    over_rows<I::kTall, I::kShort>(p.plan.key_dim, [&](auto height, int64_t d) HJ_INLINE_LAMBDA {
      Tile<I::W, I::N, decltype(height)::value> t;
      load_strided(t, d_state.row(d) + c, d_state.pitch);
      scale_rows(t, m.scratch + p.layout.kept + d);
      accumulate_transposed(t, query.from(0, d), d_output.from(0, c), rows);
      if (p.delta) accumulate_transposed(t, key.from(0, d), d_known.from(0, c), rows);
      store_strided(d_state.row(d) + c, d_state.pitch, t);
    });
  }
}

// Gradients of the strengths; the value rows become their own gradient.
template <class I>
void strength_gradients(const Parts& m, const Span& s, int64_t value_head) {
  const Problem& p = m.b.forward;
  const int64_t dim = p.plan.value_dim;
  for (int64_t r = 0; r < s.rows; ++r) {
    float* values = m.by_value(m.b.at.values).row(r);
    const float* known = m.by_value(m.b.at.known).row(r);
    const float* gradient = m.by_value(m.b.at.d_update).row(r);
    float* to = m.b.call.beta_gradient + head_offset(p, s, r, value_head) * (p.two_strengths ? kStrengths : 1);
    if (p.two_strengths) {
      to[kErase] = -dot_rows(gradient, known, dim);
      to[kWrite] = dot_rows(gradient, values, dim);
    } else {
      if (p.delta) {
        over_columns<I::W>(dim, [&](auto width, int64_t c) HJ_INLINE_LAMBDA {
          constexpr int V = decltype(width)::value;
          store<V>(values + c, load<V>(values + c) - load<V>(known + c));
        });
      }
      *to = dot_rows(gradient, values, dim);
    }
    const int64_t offset = head_offset(p, s, r, value_head) * dim;
    const float write = m.scratch[p.layout.write + r];
    over_columns<I::W>(dim, [&](auto width, int64_t c) HJ_INLINE_LAMBDA {
      constexpr int V = decltype(width)::value;
      store_as<V>(p.plan.input_dtype, m.b.call.value_gradient, offset + c, load<V>(gradient + c) * splat<V>(write));
    });
  }
}

}  // namespace
}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_KERNELS_BACKWARD_HEAD_H_
