// Gradients through the scores when each key channel has a decay of its own: the halving of channel.h once more, now
// with the gradients of the scores between two blocks. What a boundary's scores say of the decays is a sum over the
// second block's tokens behind a token, and over the first block's tokens before it.
#ifndef HAJAX_NATIVE_CPU_KERNELS_BACKWARD_CHANNEL_H_
#define HAJAX_NATIVE_CPU_KERNELS_BACKWARD_CHANNEL_H_

#include "native/cpu/kernels/backward_scores.h"
#include "native/cpu/kernels/channel.h"

namespace hajax::cpu {
namespace {

// to = rows x factors, for tokens [first, end).
template <class I>
void factored_rows(const Parts& m, const Matrix& rows, const Matrix& factors, int64_t first, int64_t end,
                   const Matrix& to) {
  for (int64_t r = first; r < end; ++r) {
    over_columns<I::W>(m.b.forward.plan.key_dim, [&](auto width, int64_t c) HJ_INLINE_LAMBDA {
      constexpr int V = decltype(width)::value;
      store<V>(to.row(r) + c, flushed<V>(load<V>(rows.row(r) + c) * load<V>(factors.row(r) + c)));
    });
  }
}

// gradient += factors x product, and said (+)= rows x product, over tokens [first, end).
template <class I>
void add_products(const Parts& m, const Matrix& gradient, const Matrix& factors, const Matrix& rows,
                  const Matrix& product, int64_t first, int64_t end, const Matrix& said, bool more) {
  for (int64_t r = first; r < end; ++r) {
    over_columns<I::W>(m.b.forward.plan.key_dim, [&](auto width, int64_t c) HJ_INLINE_LAMBDA {
      constexpr int V = decltype(width)::value;
      const F<V> x = load<V>(product.row(r) + c);
      store<V>(gradient.row(r) + c, load<V>(gradient.row(r) + c) + load<V>(factors.row(r) + c) * x);
      const F<V> term = load<V>(rows.row(r) + c) * x;
      store<V>(said.row(r) + c, more ? load<V>(said.row(r) + c) + term : term);
    });
  }
}

// d_decay of a token of [first, end) += what it and the tokens behind it say.
template <class I>
void add_from_behind(const Parts& m, const Matrix& said, int64_t first, int64_t end) {
  const Matrix d_decay = m.by_key(m.b.at.d_decay);
  over_columns<I::W>(m.b.forward.plan.key_dim, [&](auto width, int64_t c) HJ_INLINE_LAMBDA {
    constexpr int V = decltype(width)::value;
    F<V> sums{};
    for (int64_t r = end - 1; r >= first; --r) {
      sums += load<V>(said.row(r) + c);
      store<V>(d_decay.row(r) + c, load<V>(d_decay.row(r) + c) + sums);
    }
  });
}

// d_decay of a token of [first, end) += what the tokens before it say.
template <class I>
void add_from_before(const Parts& m, const Matrix& said, int64_t first, int64_t end) {
  const Matrix d_decay = m.by_key(m.b.at.d_decay);
  over_columns<I::W>(m.b.forward.plan.key_dim, [&](auto width, int64_t c) HJ_INLINE_LAMBDA {
    constexpr int V = decltype(width)::value;
    F<V> sums{};
    for (int64_t r = first; r < end; ++r) {
      store<V>(d_decay.row(r) + c, load<V>(d_decay.row(r) + c) + sums);
      sums += load<V>(said.row(r) + c);
    }
  });
}

// Factors of the tokens of a block: from its start, a token's own decay included, and from behind a token to its end.
// The block's sums are formed anew, as decay_channels left joined ones.
template <class I>
void block_factors(const Parts& m, const Span& s, int64_t value_head, int64_t first, int64_t end) {
  const Problem& p = m.b.forward;
  const Matrix decays = m.raw_key(p.layout.channel_decay);
  const Matrix in = m.by_key(m.b.at.factor_in), out = m.by_key(m.b.at.factor_out);
  float* sums = sums_of(p, m.scratch, first / kBlock);
  over_columns<I::W>(p.plan.key_dim, [&](auto width, int64_t c) HJ_INLINE_LAMBDA {
    constexpr int V = decltype(width)::value;
    F<V> sum{}, lost{}, from_start = splat<V>(1.0f), to_end = splat<V>(1.0f);
    for (int64_t r = first; r < end; ++r) {
      add_exactly<V>(sum, lost, log_decays<V>(p, channel_offset(p, s, r, value_head) + c));
      from_start *= load<V>(decays.row(r) + c);
      store<V>(in.row(r) + c, from_start);
    }
    store<V>(sums + c, sum);
    store<V>(sums + p.plan.key_dim + c, lost);
    for (int64_t r = end - 1; r >= first; --r) {
      store<V>(out.row(r) + c, to_end);
      to_end *= load<V>(decays.row(r) + c);
    }
  });
}

// The scores within a block, pair by pair. The earlier token's key is decayed step by step, as in score_column.
template <class I>
void block_gradients(const Parts& m, int64_t first, int64_t end) {
  const Problem& p = m.b.forward;
  const Matrix key = m.raw_key(p.layout.key), query = m.raw_key(p.layout.query);
  const Matrix decays = m.raw_key(p.layout.channel_decay);
  const Matrix d_key = m.by_key(m.b.at.d_key), d_query = m.by_key(m.b.at.d_query), d_decay = m.by_key(m.b.at.d_decay);
  const Matrix d_mix = m.by_token(m.b.at.d_mix), d_lower = m.by_token(m.b.at.d_lower);
  over_columns<I::W>(p.plan.key_dim, [&](auto width, int64_t c) HJ_INLINE_LAMBDA {
    constexpr int V = decltype(width)::value;
    for (int64_t j = first; j < end; ++j) {
      const F<V> own = load<V>(key.row(j) + c);
      const float here = d_mix.row(j)[j];
      store<V>(d_query.row(j) + c, load<V>(d_query.row(j) + c) + splat<V>(here) * own);
      F<V> gradient = splat<V>(here) * load<V>(query.row(j) + c);
      F<V> decay = splat<V>(1.0f);
      F<V> said[kBlock];
      for (int64_t i = j + 1; i < end; ++i) {
        decay *= load<V>(decays.row(i) + c);
        const F<V> decayed = own * decay;
        const F<V> of_query = splat<V>(d_mix.row(i)[j]);
        F<V> pulled = of_query * load<V>(query.row(i) + c);
        store<V>(d_query.row(i) + c, load<V>(d_query.row(i) + c) + of_query * decayed);
        if (p.delta) {
          const F<V> of_key = splat<V>(d_lower.row(i)[j]);
          pulled += of_key * load<V>(key.row(i) + c);
          store<V>(d_key.row(i) + c, load<V>(d_key.row(i) + c) + of_key * decayed);
        }
        gradient += pulled * decay;
        said[i - first] = pulled * decayed;
      }
      store<V>(d_key.row(j) + c, load<V>(d_key.row(j) + c) + gradient);
      F<V> sums{};
      for (int64_t i = end - 1; i > j; --i) {
        sums += said[i - first];
        store<V>(d_decay.row(i) + c, load<V>(d_decay.row(i) + c) + sums);
      }
    }
  });
}

// Of two neighbouring blocks, the scores of the second's tokens with the first's.
template <class I>
void boundary_gradients(const Parts& m, int64_t middle, int64_t size, int64_t end) {
  const Problem& p = m.b.forward;
  const int64_t dim = p.plan.key_dim, start = middle - size, count = end - middle;
  const Matrix key = m.raw_key(p.layout.key), query = m.raw_key(p.layout.query);
  const Matrix in = m.by_key(m.b.at.factor_in), out = m.by_key(m.b.at.factor_out);
  const Matrix row_key = m.by_key(m.b.at.row_key), row_query = m.by_key(m.b.at.row_query);
  const Matrix d_key = m.by_key(m.b.at.d_key), d_query = m.by_key(m.b.at.d_query);
  const Matrix of_query = m.by_key(m.b.at.product), of_key = m.by_key(m.b.at.product_2);
  const Matrix d_mix = m.by_token(m.b.at.d_mix), d_lower = m.by_token(m.b.at.d_lower);
  factored_rows<I>(m, key, out, start, middle, row_key);
  factored_rows<I>(m, query, in, middle, end, row_query);
  multiply<I>(d_mix.from(middle, start), row_key.from(start, 0), count, size, dim, of_query.from(middle, 0));
  if (p.delta) {
    multiply<I>(d_lower.from(middle, start), row_key.from(start, 0), count, size, dim, of_key.from(middle, 0));
    factored_rows<I>(m, key, in, middle, end, row_key);
  }
  for (int64_t c = 0; c < dim; c += I::kPanel) {
    over_rows<I::kTall, I::kShort>(size, [&](auto height, int64_t r) HJ_INLINE_LAMBDA {
      Tile<I::W, I::N, decltype(height)::value> t;
      clear(t);
      accumulate_transposed(t, d_mix.from(middle, start + r), row_query.from(middle, c), count);
      if (p.delta) accumulate_transposed(t, d_lower.from(middle, start + r), row_key.from(middle, c), count);
      store_strided(of_key.row(start + r) + c, of_key.pitch, t);
    });
  }
  const Matrix said = row_query;
  add_products<I>(m, d_query, in, row_query, of_query, middle, end, said, false);
  if (p.delta) add_products<I>(m, d_key, in, row_key, of_key, middle, end, said, true);
  add_from_behind<I>(m, said, middle, end);
  factored_rows<I>(m, key, out, start, middle, row_key);
  add_products<I>(m, d_key, out, row_key, of_key, start, middle, row_key, false);
  add_from_before<I>(m, row_key, start, middle);
}

// The factors of two blocks become those of one.
template <class I>
void join_factors(const Parts& m, int64_t middle, int64_t size, int64_t end) {
  const Problem& p = m.b.forward;
  const int64_t dim = p.plan.key_dim;
  const Matrix in = m.by_key(m.b.at.factor_in), out = m.by_key(m.b.at.factor_out);
  float* first = sums_of(p, m.scratch, (middle - size) / kBlock);
  const float* second = sums_of(p, m.scratch, middle / kBlock);
  over_columns<I::W>(dim, [&](auto width, int64_t c) HJ_INLINE_LAMBDA {
    constexpr int V = decltype(width)::value;
    F<V> sum = load<V>(first + c), lost = load<V>(first + dim + c);
    const F<V> more = load<V>(second + c), more_lost = load<V>(second + dim + c);
    const F<V> over_first = exp_of_sum<V>(sum, lost), over_second = exp_of_sum<V>(more, more_lost);
    add_exactly<V>(sum, lost, more);
    store<V>(first + c, sum);
    store<V>(first + dim + c, lost + more_lost);
    for (int64_t r = middle; r < end; ++r) {
      store<V>(in.row(r) + c, flushed<V>(load<V>(in.row(r) + c) * over_first));
    }
    for (int64_t r = middle - size; r < middle; ++r) {
      store<V>(out.row(r) + c, flushed<V>(load<V>(out.row(r) + c) * over_second));
    }
  });
}

// Everything that the scores within a chunk say of keys, queries and decays.
template <class I>
void channel_score_gradients(const Parts& m, const Span& s, int64_t value_head) {
  const int64_t rows = s.rows;
  for (int64_t first = 0; first < rows; first += kBlock) {
    const int64_t end = first + kBlock < rows ? first + kBlock : rows;
    block_factors<I>(m, s, value_head, first, end);
    block_gradients<I>(m, first, end);
  }
  for (int64_t size = kBlock; size < rows; size *= 2) {
    for (int64_t middle = size; middle < rows; middle += 2 * size) {
      const int64_t end = middle + size < rows ? middle + size : rows;
      boundary_gradients<I>(m, middle, size, end);
      join_factors<I>(m, middle, size, end);
    }
  }
}

// As row_gradients, with rows decayed by channel: factor_in and factor_out are now those of the whole chunk.
template <class I>
void channel_row_gradients(const Parts& m, int64_t rows) {
  const Problem& p = m.b.forward;
  const int64_t dim = p.plan.key_dim, depth = p.plan.value_dim;
  const Matrix key = m.raw_key(p.layout.key);
  const Matrix key_in = m.raw_key(p.layout.key_in), query_in = m.raw_key(p.layout.query_in);
  const Matrix in = m.by_key(m.b.at.factor_in), out = m.by_key(m.b.at.factor_out);
  const Matrix product = m.by_key(m.b.at.product), said = m.by_key(m.b.at.row_query);
  const Matrix row_key = m.by_key(m.b.at.row_key), d_key = m.by_key(m.b.at.d_key);
  const Matrix state_t = m.by_key(m.b.at.state_t), d_state_t = m.by_key(m.b.at.d_state_t);
  multiply<I>(m.by_value(m.b.at.d_output), state_t, rows, depth, dim, product);
  add_products<I>(m, m.by_key(m.b.at.d_query), in, query_in, product, 0, rows, said, false);
  if (p.delta) {
    multiply<I>(m.by_value(m.b.at.d_known), state_t, rows, depth, dim, product);
    add_products<I>(m, d_key, in, key_in, product, 0, rows, said, true);
  }
  add_from_behind<I>(m, said, 0, rows);
  multiply<I>(m.by_value(m.b.at.update), d_state_t, rows, depth, dim, product);
  factored_rows<I>(m, key, out, 0, rows, row_key);
  add_products<I>(m, d_key, out, row_key, product, 0, rows, row_key, false);
  add_from_before<I>(m, row_key, 0, rows);
}

// Adds what the state that is carried over the chunk says, `whole` [Dk], and stores the rows.
template <class I>
void store_channel_decays(const Parts& m, const Span& s, int64_t value_head, const float* whole) {
  const Problem& p = m.b.forward;
  for (int64_t r = 0; r < s.rows; ++r) {
    const int64_t offset = channel_offset(p, s, r, value_head);
    over_columns<I::W>(p.plan.key_dim, [&](auto width, int64_t c) HJ_INLINE_LAMBDA {
      constexpr int V = decltype(width)::value;
      const F<V> x = load<V>(m.by_key(m.b.at.d_decay).row(r) + c) + load<V>(whole + c);
      store<V>(m.b.call.log_decay_gradient + offset + c, x);
    });
  }
}

}  // namespace
}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_KERNELS_BACKWARD_CHANNEL_H_
