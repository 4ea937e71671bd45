// Short sequences and decoding: token by token on the state where it lies. Memory-bound, so the state is read once and
// updated once a token.
#ifndef HAJAX_NATIVE_CPU_KERNELS_TOKEN_H_
#define HAJAX_NATIVE_CPU_KERNELS_TOKEN_H_

#include "native/cpu/kernels/channel.h"
#include "native/cpu/kernels/weights.h"

namespace hajax::cpu {
namespace {

// State rows that one sweep over the columns combines, so that the running sums are loaded and stored once for all of
// them.
constexpr int kTokenRows = 4;
constexpr int kTokenVectors = 8;
constexpr int kTokenRowsAhead = kTokenRows;  // of the state, prefetched

// key_sums = k^T S and query_sums = q^T S over `columns` columns; state rows are `pitch` apart.
template <class I>
HJ_INLINE void read_state(const float* state, int64_t pitch, int64_t dim, int64_t columns, const float* key,
                          const float* query, float* key_sums, float* query_sums) {
  for (int64_t d = 0; d < dim; d += kTokenRows) {
    const float* rows = state + d * pitch;
    over_columns<I::W>(columns, [&](auto width, int64_t c) HJ_INLINE_LAMBDA {
      constexpr int V = decltype(width)::value;
      F<V> k = d == 0 ? F<V>{} : load<V>(key_sums + c);
      F<V> q = d == 0 ? F<V>{} : load<V>(query_sums + c);
      HJ_UNROLL
      for (int i = 0; i < kTokenRows; ++i) {
        const F<V> row = load<V>(rows + i * pitch + c);
        if (d + kTokenRowsAhead + i < dim) __builtin_prefetch(rows + (kTokenRowsAhead + i) * pitch + c);
        k += splat<V>(key[d + i]) * row;
        q += splat<V>(query[d + i]) * row;
      }
      store<V>(key_sums + c, k);
      store<V>(query_sums + c, q);
    });
  }
}

// to = kept from + k u^T, row by row; `to` may be `from`. The update of so many columns stays in registers.
template <class I>
HJ_INLINE void write_state(const float* from, float* to, int64_t pitch, int64_t dim, int64_t columns,
                           const float* decay, const float* key, const float* update) {
  const auto write = [&](auto vectors, auto width, int64_t c) HJ_INLINE_LAMBDA {
    constexpr int N = decltype(vectors)::value;
    constexpr int V = decltype(width)::value;
    F<V> u[N];
    HJ_UNROLL
    for (int j = 0; j < N; ++j) u[j] = load<V>(update + c + j * V);
    for (int64_t d = 0; d < dim; ++d) {
      const F<V> kept = splat<V>(decay[d]);
      const F<V> k = splat<V>(key[d]);
      HJ_UNROLL
      for (int j = 0; j < N; ++j) {
        const int64_t at = d * pitch + c + j * V;
        store<V>(to + at, kept * load<V>(from + at) + k * u[j]);
      }
    }
  };
  constexpr int64_t kWide = kTokenVectors * I::W;
  int64_t c = 0;
  for (; c + kWide <= columns; c += kWide) write(Rows<kTokenVectors>{}, Width<I::W>{}, c);
  over_columns<I::W>(columns - c,
                     [&](auto width, int64_t rest) HJ_INLINE_LAMBDA { write(Rows<1>{}, width, c + rest); });
}

// a . b in double: the first token of a fresh state reads nothing but q . k, which may be far smaller than its terms.
HJ_INLINE float dot(const float* a, const float* b, int64_t n) {
  constexpr int kSums = 4;  // independent, as the additions of one would wait for each other
  double sums[kSums] = {};
  for (int64_t i = 0; i < n; i += kSums) {
    HJ_UNROLL
    for (int j = 0; j < kSums; ++j) sums[j] += static_cast<double>(a[i + j]) * static_cast<double>(b[i + j]);
  }
  return static_cast<float>((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

// The rows that read a token's state before it decays, and what the sums are then decayed by: the rows may be decayed
// themselves.
struct TokenRows {
  const float* key;
  const float* query;
  float decay;
};

// Fills what is kept of the state's rows. `row` is the token's place in the span that load_rows loaded.
template <class I>
HJ_INLINE TokenRows prepare_token(const Problem& p, const Span& s, int64_t row, int64_t value_head, float* scratch) {
  const Layout& at = p.layout;
  const int64_t dim = p.plan.key_dim;
  const float* key = scratch + at.key + row * dim;
  const float* query = scratch + at.query + row * dim;
  if (p.decay != kDecay_per_channel) {
    const int64_t index = head_offset(p, s, row, value_head);
    const float decay =
        p.decay == kDecay_scalar ? exp_nonpositive<kNarrowest>(splat<kNarrowest>(p.call.log_decay[index]))[0] : 1.0f;
    keep_rows(p, decay, scratch);
    return {key, query, decay};
  }
  over_columns<I::W>(dim, [&](auto width, int64_t c) HJ_INLINE_LAMBDA {
    constexpr int V = decltype(width)::value;
    const F<V> decay = exp_nonpositive<V>(log_decays<V>(p, channel_offset(p, s, row, value_head) + c));
    store<V>(scratch + at.kept + c, decay);
    store<V>(scratch + at.key_in + c, decay * load<V>(key + c));
    store<V>(scratch + at.query_in + c, decay * load<V>(query + c));
  });
  return {scratch + at.key_in, scratch + at.query_in, 1.0f};
}

// One token of one value head on columns [first, first + columns); the states point at the first of them.
template <class I>
HJ_INLINE void step_token(const Problem& p, const Span& s, const TokenRows& rows, int64_t row, int64_t value_head,
                          int64_t first, int64_t columns, const float* state_in, float* state_out, float* scratch) {
  const int64_t dim = p.plan.key_dim;
  const int64_t pitch = p.plan.value_dim;
  const float* key = scratch + p.layout.key + row * dim;
  const float* query = scratch + p.layout.query + row * dim;
  float* key_sums = scratch + p.layout.update;
  float* query_sums = key_sums + pitch;
  float* update = query_sums + pitch;
  const int64_t index = head_offset(p, s, row, value_head);
  const float write = p.two_strengths ? p.call.beta[index * kStrengths + kWrite] : p.call.beta[index];
  const float erase = p.two_strengths ? p.call.beta[index * kStrengths + kErase] : 1.0f;
  read_state<I>(state_in, pitch, dim, columns, rows.key, rows.query, key_sums, query_sums);
  const float overlap = dot(query, key, dim);
  over_columns<I::W>(columns, [&](auto width, int64_t c) HJ_INLINE_LAMBDA {
    constexpr int V = decltype(width)::value;
    const int64_t at = index * pitch + first + c;
    F<V> u = load_as<V>(p.plan.input_dtype, p.call.value, at);
    if (p.two_strengths) {
      u = splat<V>(write) * u - splat<V>(erase * rows.decay) * load<V>(key_sums + c);
    } else {
      if (p.delta) u -= splat<V>(rows.decay) * load<V>(key_sums + c);
      u = splat<V>(write) * u;
    }
    store<V>(update + c, u);
    store_as<V>(p.plan.output_dtype, p.call.output, at,
                splat<V>(rows.decay) * load<V>(query_sums + c) + splat<V>(overlap) * u);
  });
  write_state<I>(state_in, state_out, pitch, dim, columns, scratch + p.layout.kept, key, update);
}

}  // namespace
}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_KERNELS_TOKEN_H_
