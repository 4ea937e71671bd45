// Gradients of scores and of decays of a head, and the rows of key and query that all value heads of a group share.
//
// The log decay of token t is in every sum over tokens i >= t or over j < t or between j < t <= i: its gradient adds up
// those terms, each set from its far end, so that nothing large is ever taken away again.
#ifndef HAJAX_NATIVE_CPU_KERNELS_BACKWARD_SCORES_H_
#define HAJAX_NATIVE_CPU_KERNELS_BACKWARD_SCORES_H_

#include "native/cpu/kernels/backward_head.h"

namespace hajax::cpu {
namespace {

// dP = dO X^T and dM = dU X^T, on and below the diagonal.
template <class I>
void score_gradients(const Parts& m, int64_t rows) {
  const Problem& p = m.b.forward;
  const Matrix update_t = m.by_token(m.b.at.update_t);
  const int64_t dim = p.plan.value_dim;
  transpose<I>(m.by_value(m.b.at.update), round_up(rows, kNarrowest), dim, update_t);
  multiply_lower<I>(m.by_value(m.b.at.d_output), update_t, rows, dim, m.by_token(m.b.at.d_mix));
  if (p.delta) multiply_lower<I>(m.by_value(m.b.at.d_known), update_t, rows, dim, m.by_token(m.b.at.d_lower));
}

// Adds the gradients of Q K^T and K K^T to those of the group's other heads, and sums what each score says of the
// decays between its tokens.
template <class I, bool Decayed>
void undecayed_gradients(const Parts& m, int64_t rows, bool first_head) {
  constexpr int W = I::W;
  using Int = typename VecOf<W>::I;
  const Problem& p = m.b.forward;
  const Layout& at = p.layout;
  float* below = m.vector(at.segment);  // of each column, what the scores from this row on say
  if constexpr (Decayed) {
    for (int64_t c = 0; c < at.pitch; c += W) store<W>(below + c, F<W>{});
  }
  for (int64_t i = rows - 1; i >= 0; --i) {
    const int64_t row = i * at.pitch;
    F<W> between{};
    for (int64_t c = 0; c < round_up(i + kRowSlack, W); c += W) {
      const Int column = iota<W>() + static_cast<int32_t>(c);
      const Int before = column < static_cast<int32_t>(i);
      const Int upto = column <= static_cast<int32_t>(i);
      F<W> mix = upto ? load<W>(m.scratch + m.b.at.d_mix + row + c) : F<W>{};
      F<W> lower{};
      if (p.delta) lower = before ? load<W>(m.scratch + m.b.at.d_lower + row + c) : F<W>{};
      if constexpr (Decayed) {
        F<W> said = mix * load<W>(m.scratch + at.mix + row + c);
        if (p.delta) said += lower * load<W>(m.scratch + at.lower + row + c);
        const F<W> sums = load<W>(below + c) + (before ? said : F<W>{});
        store<W>(below + c, sums);
        between += before ? sums : F<W>{};
        const F<W> ratio = load<W>(m.scratch + m.b.at.ratio + row + c);
        mix *= ratio;
        lower *= ratio;
      }
      float* d_qk = m.scratch + m.b.at.d_qk + row + c;
      float* d_kk = m.scratch + m.b.at.d_kk + row + c;
      store<W>(d_qk, first_head ? mix : load<W>(d_qk) + mix);
      if (p.delta) store<W>(d_kk, first_head ? lower : load<W>(d_kk) + lower);
    }
    if constexpr (Decayed) m.scratch[m.b.at.between + i] = sum<W>(between);
  }
}

// What the state at the chunk's start and the gradient of that at its end say of the key and query rows, and through
// them of the decays from the start and to the end. Cotangents are decayed from the start, updates to the end.
template <class I>
void row_gradients(const Parts& m, int64_t rows, bool first_head) {
  const Problem& p = m.b.forward;
  const int64_t dim = p.plan.key_dim;
  const Matrix product = m.by_key(m.b.at.product);
  const auto add = [&](const Matrix& to, const Matrix& row, bool first, float* sums, bool more) HJ_INLINE_LAMBDA {
    for (int64_t r = 0; r < rows; ++r) {
      const float said = dot_rows(product.row(r), row.row(r), dim);
      sums[r] = more ? sums[r] + said : said;
      over_columns<I::W>(dim, [&](auto width, int64_t c) HJ_INLINE_LAMBDA {
        constexpr int V = decltype(width)::value;
        const F<V> x = load<V>(product.row(r) + c);
        store<V>(to.row(r) + c, first ? x : load<V>(to.row(r) + c) + x);
      });
    }
  };
  const Matrix state_t = m.by_key(m.b.at.state_t), d_state_t = m.by_key(m.b.at.d_state_t);
  const Matrix key = m.raw_key(p.layout.key), query = m.raw_key(p.layout.query);
  const int64_t depth = p.plan.value_dim;
  multiply<I>(m.by_value(m.b.at.d_output), state_t, rows, depth, dim, product);
  add(m.by_key(m.b.at.d_query), query, first_head, m.vector(m.b.at.to_here), false);
  multiply<I>(m.by_value(m.b.at.update), d_state_t, rows, depth, dim, product);
  add(m.by_key(m.b.at.d_key), key, first_head, m.vector(m.b.at.from_here), false);
  if (!p.delta) return;
  multiply<I>(m.by_value(m.b.at.d_known), state_t, rows, depth, dim, product);
  add(m.by_key(m.b.at.d_key), key, false, m.vector(m.b.at.to_here), true);
}

// The whole of a head's log decay gradient; `whole` is what the state that is carried over the chunk says.
HJ_INLINE void decay_gradient(const Parts& m, const Span& s, int64_t value_head, double whole) {
  const float* to_here = m.vector(m.b.at.to_here);
  const float* from_here = m.vector(m.b.at.from_here);
  float* between = m.vector(m.b.at.between);
  double before = whole, after = 0;
  for (int64_t r = 0; r < s.rows; ++r) {
    between[r] += static_cast<float>(before);
    before += static_cast<double>(from_here[r]);
  }
  for (int64_t r = s.rows - 1; r >= 0; --r) {
    after += static_cast<double>(to_here[r]);
    const int64_t index = head_offset(m.b.forward, s, r, value_head);
    m.b.call.log_decay_gradient[index] = between[r] + static_cast<float>(after);
  }
}

// dQ += dN K and dK += dN^T Q + (dM + dM^T) K, with N = Q K^T and M = K K^T without decay.
template <class I>
void shared_gradients(const Parts& m, int64_t rows) {
  const Problem& p = m.b.forward;
  const Matrix key = m.raw_key(p.layout.key), query = m.raw_key(p.layout.query);
  const Matrix d_query = m.by_key(m.b.at.d_query), d_key = m.by_key(m.b.at.d_key);
  const Matrix d_qk = m.by_token(m.b.at.d_qk), d_kk = m.by_token(m.b.at.d_kk);
  for (int64_t c = 0; c < p.plan.key_dim; c += I::kPanel) {
    over_rows<I::kTall, I::kShort>(rows, [&](auto height, int64_t r) HJ_INLINE_LAMBDA {
      constexpr int R = decltype(height)::value;
      const int64_t upto = r + R < rows ? r + R : rows;
      Tile<I::W, I::N, R> t;
      load_strided(t, d_query.row(r) + c, d_query.pitch);
      accumulate_rows(t, d_qk.from(r, 0), key.from(0, c), upto);
      store_strided(d_query.row(r) + c, d_query.pitch, t);
      load_strided(t, d_key.row(r) + c, d_key.pitch);
      accumulate_transposed(t, d_qk.from(r, r), query.from(r, c), rows - r);
      if (p.delta) {
        accumulate_transposed(t, d_kk.from(r, r), key.from(r, c), rows - r);
        accumulate_rows(t, d_kk.from(r, 0), key.from(0, c), upto);
      }
      store_strided(d_key.row(r) + c, d_key.pitch, t);
    });
  }
}

// Gradient of a raw row from that of the row times its factor, which may hold the norm of the row itself:
// with n = x / |x| and y = scale n it is factor (dy - n (n . dy)).
template <class I>
HJ_INLINE void store_row_gradient(const Problem& p, const float* row, float factor, float scale, const float* gradient,
                                  int32_t dtype, void* to, int64_t offset) {
  const int64_t dim = p.plan.key_dim;
  float along = 0;
  if (p.call.l2norm_eps >= 0 && scale != 0) along = dot_rows(row, gradient, dim) / scale / scale;
  over_columns<I::W>(dim, [&](auto width, int64_t c) HJ_INLINE_LAMBDA {
    constexpr int V = decltype(width)::value;
    const F<V> x = load<V>(gradient + c) - splat<V>(along) * load<V>(row + c);
    store_as<V>(dtype, to, offset + c, splat<V>(factor) * x);
  });
}

// Rows of [B, T, Hk * subgroups, Dk]: of the input's dtype, or partial sums in float32 that the caller adds up.
template <class I>
void store_key_gradients(const Parts& m, const Span& s, int64_t subgroup) {
  const Problem& p = m.b.forward;
  const int32_t dtype = p.subgroups == 1 ? p.plan.input_dtype : static_cast<int32_t>(kDtype_float32);
  for (int64_t r = 0; r < s.rows; ++r) {
    const int64_t token = s.batch * p.call.tokens + s.first + r;
    const int64_t at = ((token * p.plan.key_heads + s.key_head) * p.subgroups + subgroup) * p.plan.key_dim;
    store_row_gradient<I>(p, m.raw_key(p.layout.query).row(r), m.scratch[p.layout.query_factor + r], p.call.scale,
                          m.by_key(m.b.at.d_query).row(r), dtype, m.b.call.query_gradient, at);
    store_row_gradient<I>(p, m.raw_key(p.layout.key).row(r), m.scratch[p.layout.key_factor + r], 1.0f,
                          m.by_key(m.b.at.d_key).row(r), dtype, m.b.call.key_gradient, at);
  }
}

}  // namespace
}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_KERNELS_BACKWARD_SCORES_H_
