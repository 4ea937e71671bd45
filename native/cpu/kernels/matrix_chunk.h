// Operands of a chunk for matrix tiles: rows of keys and queries, transposed keys, their scores, and what one value
// head makes of them. Rows are taken as they are, exact in a few parts; norms and the scale go into factors of rows.
#ifndef HAJAX_NATIVE_CPU_KERNELS_MATRIX_CHUNK_H_
#define HAJAX_NATIVE_CPU_KERNELS_MATRIX_CHUNK_H_

#include "native/cpu/kernels/chunk.h"
#include "native/cpu/kernels/matrix.h"
#include "native/cpu/kernels/weights.h"

namespace hajax::cpu {
namespace {

constexpr int64_t kTileMacs = kTileRows * kTileRows * kTileDepth;

template <class T>
HJ_INLINE T* place(float* scratch, int64_t at) {
  return reinterpret_cast<T*>(scratch + at);
}

HJ_INLINE Left rows_operand(const Problem& p, float* scratch, int64_t at) {
  const Layout& l = p.layout;
  return {place<uint16_t>(scratch, at), l.matrix_dim, l.matrix_rows * l.matrix_dim, l.input_parts};
}
HJ_INLINE Left key_t_operand(const Problem& p, float* scratch) {
  const Layout& l = p.layout;
  return {place<uint16_t>(scratch, l.key_t_parts), l.matrix_rows, l.matrix_rows * l.matrix_dim, l.input_parts};
}
HJ_INLINE Left weights_operand(const Problem& p, float* scratch, int64_t at, int64_t parts) {
  const Layout& l = p.layout;
  return {place<uint16_t>(scratch, at), l.matrix_rows, l.matrix_rows * l.matrix_rows, parts};
}
HJ_INLINE Right pairs_operand(const Problem& p, float* scratch) {
  const Layout& l = p.layout;
  return {place<uint32_t>(scratch, l.key_pairs), l.matrix_rows, l.matrix_rows * l.matrix_dim / 2, l.input_parts};
}

// Rows [first, end) of every part become zero, all of one block.
HJ_INLINE void zero_rows(const Left& to, int64_t first, int64_t end) {
  if (first == end) return;
  for (int64_t i = 0; i < to.parts; ++i) {
    for (int64_t d = 0; d < to.pitch; d += kTileDepth) {
      __builtin_memset(element(to, first, d) + i * to.stride, 0,
                       static_cast<uint64_t>((end - first) * kTileDepth) * sizeof(uint16_t));
    }
  }
}

// Input rows into parts, and the factors that they were not multiplied by.
template <class I, int N>
HJ_INLINE void split_inputs(const Problem& p, const Span& s, const void* base, float scale, const Left& to,
                            float* factor) {
  const int64_t dim = p.plan.key_dim;
  const int32_t dtype = p.plan.input_dtype;
  const bool normalise = p.call.l2norm_eps >= 0;
  for (int64_t first = 0; first < s.rows; first += kNarrowest) {
    const int64_t inside = s.rows - first < kNarrowest ? s.rows - first : kNarrowest;
    float squares[kNarrowest][kNarrowest] = {}, columns[kNarrowest][kNarrowest];
    for (int64_t r = 0; r < inside; ++r) {
      const int64_t offset = key_offset(p, s, first + r);
      F<I::W> sum{};
      F<kNarrowest> rest{};
      over_columns<I::W>(dim, [&](auto width, int64_t d) HJ_INLINE_LAMBDA {
        constexpr int V = decltype(width)::value;
        const F<V> x = load_as<V>(dtype, base, offset + d);
        if constexpr (V == I::W) {
          sum += x * x;
        } else {
          rest += x * x;
        }
        if constexpr (N == 1) {  // bf16 as it is
          __builtin_memcpy(element(to, first + r, d), static_cast<const uint16_t*>(base) + offset + d,
                           V * sizeof(uint16_t));
        } else {
          split_row<V, N>(x, element(to, first + r, d), to.stride);
        }
      });
      store<kNarrowest>(squares[r], rest + low_half(sum) + high_half(sum));
    }
    F<kNarrowest> factors = splat<kNarrowest>(scale);
    if (normalise) {  // eight rows at a time, as sums across lanes, roots and quotients are slow one by one
      transpose_block<kNarrowest>(squares[0], kNarrowest, columns[0], kNarrowest);
      F<kNarrowest> sums = splat<kNarrowest>(p.call.l2norm_eps);
      for (int i = 0; i < kNarrowest; ++i) sums += load<kNarrowest>(columns[i]);
      for (int i = 0; i < kNarrowest; ++i) sums[i] = __builtin_sqrtf(sums[i]);
      factors /= sums;
    }
    store<kNarrowest>(factor + first, factors);
  }
}

// The key parts, transposed: as pairs, which K K^T and Q K^T multiply with, and as rows, for K^T X.
template <class I>
HJ_INLINE void transpose_parts(const Problem& p, int64_t rows, float* scratch) {
  using U = typename VecOf<I::W>::U;
  constexpr int B = kNarrowest;
  const Left key = rows_operand(p, scratch, p.layout.key_parts);
  const Right pairs = pairs_operand(p, scratch);
  const Left key_t = key_t_operand(p, scratch);
  for (int64_t i = 0; i < key.parts; ++i) {
    const int64_t channels = key.pitch / 2;  // pairs of them
    float* to = reinterpret_cast<float*>(pairs.at + i * pairs.stride);
    for (int64_t r = 0; r < rows; r += B) {
      for (int64_t d = 0; d < channels; d += B) {
        const float* from = reinterpret_cast<const float*>(element(key, r, 2 * d) + i * key.stride);
        transpose_block<B>(from, kTileDepth / 2, to + d * pairs.pitch + r, pairs.pitch);
      }
    }
    for (int64_t d = 0; d < channels; ++d) {
      for (int64_t r = 0; r < rows; r += 2 * I::W) {
        const float* both = to + d * pairs.pitch + r;
        const U first = (U)load<I::W>(both), second = (U)load<I::W>(both + I::W);
        store_halves<I::W, false>(element(key_t, 2 * d, r) + i * key_t.stride, first, second);
        store_halves<I::W, true>(element(key_t, 2 * d + 1, r) + i * key_t.stride, first, second);
      }
    }
  }
}

// Whole tiles of the lower triangle of rows x keys, both as they came.
template <class I>
HJ_INLINE int64_t lower_scores(const Problem& p, const Left& rows, int64_t padded, int64_t precision, float* scratch,
                               float* to) {
  using M = typename I::Tiles;
  const int64_t pitch = p.layout.pitch;
  const Right keys = pairs_operand(p, scratch);
  int64_t products = 0;
  for (int64_t r = 0; r < padded; r += kPairRows) {
    for (int64_t c = 0; c <= r; c += kPairRows) {
      products += multiply<M>(from_row(rows, r), from_column(keys, c), p.layout.matrix_dim, precision,
                              to + r * pitch + c, pitch, beside_nothing());
    }
  }
  return products;
}

// Parts of the lower triangle `from` of all rows from `first` on: of a row the columns before `end(row)`, and zeros beside
// them, up to whole tiles.
template <class I, int N, class End>
HJ_INLINE void split_triangle(const Problem& p, const float* from, int64_t first, int64_t rows, const Left& to,
                              const End& end) {
  constexpr int W = I::W;
  using Int = typename VecOf<W>::I;
  static_assert(kPairRows % (2 * W) == 0);
  for (int64_t r = first; r < rows; ++r) {
    const int32_t count = static_cast<int32_t>(end(r));
    for (int32_t c = 0; c < count; c += 2 * W) {
      const float* at = from + r * p.layout.pitch + c;
      const Int low = iota<W>() + c, high = low + W;
      const F<W> x = low < count ? load<W>(at) : F<W>{};
      const F<W> y = high < count ? load<W>(at + W) : F<W>{};
      split_rows<W, N>(x, y, element(to, r, c), to.stride);
    }
  }
}

// What the value heads of a group share.
template <class I>
HJ_INLINE void prepare_matrix_chunk(const Problem& p, const Span& s, int64_t padded, float* scratch, Work* work) {
  const Layout& at = p.layout;
  const Left key = rows_operand(p, scratch, at.key_parts);
  const Left query = rows_operand(p, scratch, at.query_parts);
  with_parts(at.input_parts, [&](auto parts) HJ_INLINE_LAMBDA {
    constexpr int N = decltype(parts)::value;
    split_inputs<I, N>(p, s, p.call.key, 1.0f, key, scratch + at.key_factor);
    split_inputs<I, N>(p, s, p.call.query, p.call.scale, query, scratch + at.query_factor);
  });
  zero_rows(key, s.rows, padded);
  zero_rows(query, s.rows, padded);
  transpose_parts<I>(p, padded, scratch);
  int64_t products = lower_scores<I>(p, query, padded, at.output_parts, scratch, scratch + at.qk);
  if (p.delta) products += lower_scores<I>(p, key, padded, kStateParts, scratch, scratch + at.kk);
  const Left mix = weights_operand(p, scratch, at.mix_parts, at.output_parts);
  with_parts(at.output_parts, [&](auto parts) HJ_INLINE_LAMBDA {
    split_triangle<I, decltype(parts)::value>(p, scratch + at.qk, 0, padded, mix,
                                              [](int64_t r) HJ_INLINE_LAMBDA { return r + 1; });
  });
  const Left lower = weights_operand(p, scratch, at.lower_parts, kStateParts);
  if (p.delta) {
    split_triangle<I, kStateParts>(p, scratch + at.kk, kPairRows, padded, lower,
                                   [](int64_t r) HJ_INLINE_LAMBDA { return r / kPairRows * kPairRows; });
  }
  work->macs += products * kTileMacs;
}

// Sums of the log decay, as far as they can be exponents of floats that are multiplied by one another.
constexpr double kMostDecay = 50;

// exp(sum) for a sum that is not positive: what the float of it loses comes back as a factor.
HJ_INLINE float exp_of(double sum) {
  const float near = static_cast<float>(sum);
  return exp_nonpositive<kNarrowest>(splat<kNarrowest>(near))[0] * (static_cast<float>(sum - static_cast<double>(near)) + 1);
}

HJ_INLINE double log_decay_of(const Problem& p, const Span& s, int64_t value_head) {
  double sum = 0;
  if (p.decay == kDecay_none) return sum;
  for (int64_t r = 0; r < s.rows; ++r) sum += static_cast<double>(p.call.log_decay[head_offset(p, s, r, value_head)]);
  return sum;
}

// The decay of each row since its state was last multiplied by its own, `pending` before the chunk and behind it.
template <class I>
HJ_INLINE void decay_rows(const Problem& p, const Span& s, int64_t value_head, double* pending, float* scratch) {
  constexpr int W = I::W;
  float* decay = scratch + p.layout.from_start;
  float* rest = scratch + p.layout.segment;
  double sum = *pending;
  for (int64_t r = 0; r < s.rows; ++r) {
    if (p.decay == kDecay_scalar) sum += static_cast<double>(p.call.log_decay[head_offset(p, s, r, value_head)]);
    decay[r] = static_cast<float>(sum);
    rest[r] = static_cast<float>(sum - static_cast<double>(decay[r]));
  }
  *pending = sum;
  for (int64_t r = s.rows; r < round_up(s.rows, W); ++r) decay[r] = rest[r] = 0;
  for (int64_t r = 0; r < s.rows; r += W) {
    store<W>(decay + r, exp_nonpositive<W>(load<W>(decay + r)) * (load<W>(rest + r) + 1.0f));
  }
}

// The factors of a value head's rows. Norms, strengths and decays are all that tells its equations from those of the raw
// rows, and none is in a product: with d the decay since the state was last multiplied by its own and f the norm's factor of
// a key, f X / d, S and O / d are what keys, queries and their scores multiply. A decay of more than e^-kMostDecay would not
// allow that.
template <class I>
HJ_INLINE void prepare_matrix_head(const Problem& p, const Span& s, int64_t value_head, int64_t padded, double* pending,
                                   float* scratch) {
  const Layout& at = p.layout;
  load_strengths(p, s, value_head, scratch);
  decay_rows<I>(p, s, value_head, pending, scratch);
  for (int64_t r = 0; r < padded; ++r) {
    const bool inside = r < s.rows;
    const float decay = inside ? scratch[at.from_start + r] : 1.0f;
    const float key = inside ? scratch[at.key_factor + r] : 0.0f;
    scratch[at.key_scale + r] = key;
    scratch[at.value_scale + r] = 1.0f / decay;
    scratch[at.query_scale + r] = inside ? decay * scratch[at.query_factor + r] : 0.0f;
    scratch[at.write_scale + r] = inside ? key * scratch[at.write + r] : 0.0f;
    scratch[at.erase_scale + r] = inside ? key * scratch[at.erase + r] : 0.0f;
  }
  if (!p.delta) return;
  for (int64_t r = 0; r < padded; ++r) {  // the blocks on the diagonal, which are solved in floats
    const F<I::W> scale = splat<I::W>(scratch[at.erase_scale + r] * scratch[at.key_scale + r]);
    const int64_t first = r / kPairRows * kPairRows;
    for (int64_t c = first; c < first + kPairRows; c += I::W) {
      const int64_t i = r * at.pitch + c;
      store<I::W>(scratch + at.lower + i, load<I::W>(scratch + at.kk + i) * scale);
    }
  }
}

}  // namespace
}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_KERNELS_MATRIX_CHUNK_H_
