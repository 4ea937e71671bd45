// A decay of its own for each key channel: the key and query rows of a value head decayed from the chunk's start, its
// transposed keys decayed to the chunk's end, and K K^T and Q K^T with the decay between their tokens.
//
// By binary halving: of two neighbouring blocks, the rows of the second are decayed from the boundary and those of the
// first up to it, so that every factor is at most 1; their product is the decayed scores between the two. Then both are
// decayed over the other block as well, and are one block of twice the size. Blocks of kBlock tokens are done pairwise.
#ifndef HAJAX_NATIVE_CPU_KERNELS_CHANNEL_H_
#define HAJAX_NATIVE_CPU_KERNELS_CHANNEL_H_

#include "native/cpu/kernels/chunk.h"
#include "native/cpu/kernels/exp.h"

namespace hajax::cpu {
namespace {

static_assert(kBlock == kRowSlack, "rows past the last token up to a whole block are in the slack");

constexpr float kLowestLogDecay = -200.0f;  // exp of it is 0, and sums of it stay finite

// Index of a token's first channel in the log decays.
HJ_INLINE int64_t channel_offset(const Problem& p, const Span& s, int64_t row, int64_t value_head) {
  return head_offset(p, s, row, value_head) * p.plan.key_dim;
}

template <int V>
HJ_INLINE F<V> log_decays(const Problem& p, int64_t index) {
  const F<V> lowest = splat<V>(kLowestLogDecay);
  const F<V> g = load<V>(p.call.log_decay + index);
  return g < lowest ? lowest : g;  // in this form a NaN passes
}

// 0 for what the multiplication made denormal: arithmetic on those is slow, and XLA's threads flush them.
template <int V>
HJ_INLINE F<V> flushed(F<V> x) {
  using Int = typename VecOf<V>::I;
  constexpr int32_t kExponent = 0x7f800000;
  return ((Int)x & kExponent) == 0 ? F<V>{} : x;
}

// sum += x; what rounding takes from it goes to `lost`.
template <int V>
HJ_INLINE void add_exactly(F<V>& sum, F<V>& lost, F<V> x) {
  const F<V> total = sum + x;
  const F<V> added = total - sum;
  lost += (sum - (total - added)) + (x - added);
  sum = total;
}

// exp of a sum; what the sum lost to rounding comes back as a factor.
template <int V>
HJ_INLINE F<V> exp_of_sum(F<V> sum, F<V> lost) {
  return exp_nonpositive<V>(sum) * (lost + 1.0f);
}

// Sum and lost part of block number b, [2, Dk].
HJ_INLINE float* sums_of(const Problem& p, float* scratch, int64_t block) {
  return scratch + p.layout.block_sums + block * 2 * p.plan.key_dim;
}

// The rows [first, first + kBlock) decayed within their block. Those past the last token neither decay nor write.
template <class I>
HJ_INLINE void decay_block(const Problem& p, const Span& s, int64_t value_head, int64_t first, float* scratch) {
  constexpr int B = I::W < kNarrowest ? I::W : kNarrowest;
  const Layout& at = p.layout;
  const int64_t dim = p.plan.key_dim;
  const int64_t inside = s.rows - first < kBlock ? s.rows - first : kBlock;
  const float* key = scratch + at.key + first * dim;
  const float* query = scratch + at.query + first * dim;
  float* decays = scratch + at.channel_decay + first * dim;
  float* key_in = scratch + at.key_in + first * dim;
  float* query_in = scratch + at.query_in + first * dim;
  float* key_out = scratch + at.block_rows;
  float* sums = sums_of(p, scratch, first / kBlock);
  over_columns<I::W>(dim, [&](auto width, int64_t c) HJ_INLINE_LAMBDA {
    constexpr int V = decltype(width)::value;
    F<V> sum{}, lost{}, from_start = splat<V>(1.0f), to_end = splat<V>(1.0f);
    for (int64_t r = 0; r < inside; ++r) {
      const F<V> g = log_decays<V>(p, channel_offset(p, s, first + r, value_head) + c);
      add_exactly<V>(sum, lost, g);
      const F<V> decay = exp_nonpositive<V>(g);
      from_start *= decay;
      store<V>(decays + r * dim + c, decay);
      store<V>(key_in + r * dim + c, flushed<V>(load<V>(key + r * dim + c) * from_start));
      store<V>(query_in + r * dim + c, flushed<V>(load<V>(query + r * dim + c) * from_start));
    }
    for (int64_t r = inside; r < kBlock; ++r) store<V>(decays + r * dim + c, splat<V>(1.0f));
    store<V>(sums + c, sum);
    store<V>(sums + dim + c, lost);
    for (int64_t r = kBlock - 1; r >= 0; --r) {
      store<V>(key_out + r * dim + c, flushed<V>(load<V>(key + r * dim + c) * to_end));
      to_end *= load<V>(decays + r * dim + c);
    }
  });
  const int64_t pitch = at.pitch;
  float* key_t = scratch + at.key_t + first;
  for (int64_t r = 0; r < kBlock; r += B) {
    for (int64_t d = 0; d < dim; d += B) {
      transpose_block<B>(key_out + r * dim + d, dim, key_t + d * pitch + r, pitch);
    }
  }
}

// Scores of the block's tokens j + Column, Column + 1, ... with its token number Column, whose key is decayed step by
// step.
template <class I, int Column>
HJ_INLINE void score_column(const Problem& p, int64_t first, float* scratch) {
  constexpr int W = I::W < kNarrowest ? I::W : kNarrowest;
  constexpr int kRows = kBlock - Column;
  const Layout& at = p.layout;
  const int64_t dim = p.plan.key_dim;
  const float* key = scratch + at.key + (first + Column) * dim;
  const float* query = scratch + at.query + (first + Column) * dim;
  const float* decays = scratch + at.channel_decay + (first + Column) * dim;
  F<W> keys[kRows] = {};
  F<W> queries[kRows] = {};
  for (int64_t c = 0; c < dim; c += W) {
    F<W> decayed = load<W>(key + c);
    queries[0] += load<W>(query + c) * decayed;
    HJ_UNROLL
    for (int r = 1; r < kRows; ++r) {
      decayed *= load<W>(decays + r * dim + c);
      keys[r] += load<W>(key + r * dim + c) * decayed;
      queries[r] += load<W>(query + r * dim + c) * decayed;
    }
  }
  HJ_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const int64_t to = (first + Column + r) * at.pitch + first + Column;
    scratch[at.kk + to] = sum<W>(keys[r]);
    scratch[at.qk + to] = sum<W>(queries[r]);
  }
}

template <class I, int Column = 0>
HJ_INLINE void score_block(const Problem& p, int64_t first, float* scratch) {
  if constexpr (Column < kBlock) {
    score_column<I, Column>(p, first, scratch);
    score_block<I, Column + 1>(p, first, scratch);
  }
}

// rows [count, Dk] times columns [Dk, width], width a power of two from kBlock on, to `to`, whole tiles.
template <class I, int W, int N>
HJ_INLINE void multiply_blocks(const float* rows, int64_t dim, const float* columns, int64_t pitch, int64_t count,
                               int64_t width, float* to) {
  for (int64_t c = 0; c < width; c += N * W) {
    over_rows<I::kTall, I::kShort>(count, [&](auto height, int64_t r) HJ_INLINE_LAMBDA {
      constexpr int R = decltype(height)::value;
      Tile<W, N, R> t;
      clear(t);
      accumulate_strided(t, rows + r * dim, dim, columns + c, pitch, dim);
      store_strided(to + r * pitch + c, pitch, t);
    });
  }
}

template <class I>
HJ_INLINE void score_blocks(const float* rows, int64_t dim, const float* columns, int64_t pitch, int64_t count,
                            int64_t width, float* to) {
  constexpr int kNarrow = I::W < kNarrowest ? I::W : kNarrowest;
  constexpr int kMiddle = I::kPanel / 2;
  if (width >= I::kPanel) {
    multiply_blocks<I, I::W, I::N>(rows, dim, columns, pitch, count, width, to);
  } else if (kMiddle > kNarrowest && width == kMiddle) {
    multiply_blocks<I, I::W, (kMiddle > I::W ? kMiddle / I::W : 1)>(rows, dim, columns, pitch, count, width, to);
  } else {
    multiply_blocks<I, kNarrow, kNarrowest / kNarrow>(rows, dim, columns, pitch, count, width, to);
  }
}

// Both blocks become one: the rows of the second are decayed over the first, the keys of the first over the second.
template <class I>
HJ_INLINE void join_blocks(const Problem& p, int64_t middle, int64_t size, int64_t rows, float* scratch) {
  const Layout& at = p.layout;
  const int64_t dim = p.plan.key_dim;
  float* first = sums_of(p, scratch, (middle - size) / kBlock);
  const float* second = sums_of(p, scratch, middle / kBlock);
  float* over_second = scratch + at.kept;
  const int64_t end = middle + size < rows ? middle + size : rows;
  over_columns<I::W>(dim, [&](auto width, int64_t c) HJ_INLINE_LAMBDA {
    constexpr int V = decltype(width)::value;
    F<V> sum = load<V>(first + c), lost = load<V>(first + dim + c);
    const F<V> more = load<V>(second + c), more_lost = load<V>(second + dim + c);
    const F<V> over_first = exp_of_sum<V>(sum, lost);
    store<V>(over_second + c, exp_of_sum<V>(more, more_lost));
    add_exactly<V>(sum, lost, more);
    store<V>(first + c, sum);
    store<V>(first + dim + c, lost + more_lost);
    for (int64_t r = middle; r < end; ++r) {
      float* key_in = scratch + at.key_in + r * dim + c;
      float* query_in = scratch + at.query_in + r * dim + c;
      store<V>(key_in, flushed<V>(load<V>(key_in) * over_first));
      store<V>(query_in, flushed<V>(load<V>(query_in) * over_first));
    }
  });
  for (int64_t d = 0; d < dim; ++d) {
    float* keys = scratch + at.key_t + d * at.pitch + middle - size;
    const float decay = over_second[d];
    over_columns<I::W>(size, [&](auto width, int64_t c) HJ_INLINE_LAMBDA {
      constexpr int V = decltype(width)::value;
      store<V>(keys + c, flushed<V>(load<V>(keys + c) * splat<V>(decay)));
    });
  }
}

// Everything that a chunk needs of a value head's decays.
template <class I>
HJ_INLINE void decay_channels(const Problem& p, const Span& s, int64_t value_head, float* scratch, Work* work) {
  const Layout& at = p.layout;
  const int64_t dim = p.plan.key_dim;
  const int64_t pitch = at.pitch;
  // Row tiles overshoot the last token: as in load_rows.
  __builtin_memset(scratch + at.key_in + s.rows * dim, 0, static_cast<uint64_t>(kRowSlack * dim) * sizeof(float));
  __builtin_memset(scratch + at.query_in + s.rows * dim, 0, static_cast<uint64_t>(kRowSlack * dim) * sizeof(float));
  for (int64_t first = 0; first < s.rows; first += kBlock) {
    decay_block<I>(p, s, value_head, first, scratch);
    score_block<I>(p, first, scratch);
    work->macs += kBlock * kBlock * dim;
  }
  for (int64_t size = kBlock; size < s.rows; size *= 2) {
    for (int64_t middle = size; middle < s.rows; middle += 2 * size) {
      const int64_t count = s.rows - middle < size ? s.rows - middle : size;
      const float* columns = scratch + at.key_t + middle - size;
      const int64_t to = middle * pitch + middle - size;
      if (p.delta) {
        score_blocks<I>(scratch + at.key_in + middle * dim, dim, columns, pitch, count, size, scratch + at.kk + to);
        work->macs += count * size * dim;
      }
      score_blocks<I>(scratch + at.query_in + middle * dim, dim, columns, pitch, count, size, scratch + at.qk + to);
      work->macs += count * size * dim;
      join_blocks<I>(p, middle, size, s.rows, scratch);
    }
  }
  const float* sums = sums_of(p, scratch, 0);
  over_columns<I::W>(dim, [&](auto width, int64_t c) HJ_INLINE_LAMBDA {
    constexpr int V = decltype(width)::value;
    store<V>(scratch + at.kept + c, exp_of_sum<V>(load<V>(sums + c), load<V>(sums + dim + c)));
  });
}

}  // namespace
}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_KERNELS_CHANNEL_H_
