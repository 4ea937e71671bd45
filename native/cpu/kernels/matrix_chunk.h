// Operands of a chunk for matrix tiles: rows of keys and queries, transposed keys, their scores, and what one value
// head makes of them. Rows are taken as they are, exact in a few parts; norms and the scale go into factors of rows.
#ifndef HAJAX_NATIVE_CPU_KERNELS_MATRIX_CHUNK_H_
#define HAJAX_NATIVE_CPU_KERNELS_MATRIX_CHUNK_H_

#include "native/cpu/kernels/chunk.h"
#include "native/cpu/kernels/matrix.h"
#include "native/cpu/kernels/weights.h"

namespace hajax::cpu {
namespace {

// Slices in which tiles may rest, see Beside.
constexpr int64_t kInputsRest = 2;
constexpr int64_t kRowsRest = 32;
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

// A row of bf16 into its place, and sums of its squares.
template <class I>
HJ_INLINE F<kNarrowest> copy_row(const uint16_t* from, int64_t dim, uint16_t* to) {
  constexpr int W = I::W;
  using U = typename VecOf<W>::U;
  static_assert(2 * W == kTileDepth || W < kTileDepth / 2);
  F<W> low{}, high{};
  int64_t d = 0;
  for (; d + kTileDepth <= dim; d += kTileDepth, to += kPairRows * kTileDepth) {
    HJ_UNROLL
    for (int64_t c = 0; c < kTileDepth; c += 2 * W) {
      const F<W> both = load<W>(reinterpret_cast<const float*>(from + d + c));
      store<W>(reinterpret_cast<float*>(to + c), both);
      const F<W> x = (F<W>)((U)both << kBf16Shift), y = (F<W>)((U)both & kHighHalf);
      low += x * x;
      high += y * y;
    }
  }
  F<kNarrowest> rest{};
  for (int64_t c = 0; d + c < dim; c += kNarrowest) {
    const F<kNarrowest> x = load_as<kNarrowest>(kDtype_bfloat16, from, d + c);
    __builtin_memcpy(to + c, from + d + c, kNarrowest * sizeof(uint16_t));
    rest += x * x;
  }
  low += high;
  return rest + low_half(low) + high_half(low);
}

// Likewise of any type, into parts.
template <class I, int N>
HJ_INLINE F<kNarrowest> split_row_of(int32_t dtype, const void* base, int64_t offset, int64_t dim, const Left& to,
                                     int64_t row) {
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
    split_row<V, N>(x, element(to, row, d), to.stride);
  });
  return rest + low_half(sum) + high_half(sum);
}

// Input rows [first, first + kNarrowest), those there are, into parts, and the factors that they were not multiplied
// by.
template <class I, int N>
HJ_SLICE void split_inputs(const Problem& p, const Span& s, int64_t first, const void* base, float scale,
                           const Left& to, float* factor) {
  const int64_t dim = p.plan.key_dim;
  const int64_t inside = s.rows - first < kNarrowest ? s.rows - first : kNarrowest;
  float squares[kNarrowest][kNarrowest] = {}, columns[kNarrowest][kNarrowest];
  for (int64_t r = 0; r < inside; ++r) {
    const int64_t offset = key_offset(p, s, first + r);
    if constexpr (N == 1) {
      store<kNarrowest>(squares[r],
                        copy_row<I>(static_cast<const uint16_t*>(base) + offset, dim, element(to, first + r, 0)));
    } else {
      store<kNarrowest>(squares[r], split_row_of<I, N>(p.plan.input_dtype, base, offset, dim, to, first + r));
    }
  }
  F<kNarrowest> factors = splat<kNarrowest>(scale);
  if (p.call.l2norm_eps >= 0) {  // eight rows at a time, as sums across lanes, roots and quotients are slow one by one
    transpose_block<kNarrowest>(squares[0], kNarrowest, columns[0], kNarrowest);
    F<kNarrowest> sums = splat<kNarrowest>(p.call.l2norm_eps);
    for (int i = 0; i < kNarrowest; ++i) sums += load<kNarrowest>(columns[i]);
    for (int i = 0; i < kNarrowest; ++i) sums[i] = __builtin_sqrtf(sums[i]);
    factors /= sums;
  }
  store<kNarrowest>(factor + first, factors);
}

template <class I>
HJ_INLINE auto splitting_inputs(const Problem& p, const Span& s, const void* base, float scale, const Left& to,
                                float* factor) {
  return beside((s.rows + kNarrowest - 1) / kNarrowest, [=, &p, &s](int64_t i) HJ_INLINE_LAMBDA {
    with_parts(to.parts, [&](auto parts) HJ_INLINE_LAMBDA {
      split_inputs<I, decltype(parts)::value>(p, s, i * kNarrowest, base, scale, to, factor);
    });
  });
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
      I::Tiles::stay_awake();
    }
    for (int64_t d = 0; d < channels; ++d) {
      if (d % kRowsRest == 0) I::Tiles::stay_awake();
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
template <class I, class Body>
HJ_INLINE int64_t lower_scores(const Problem& p, const Left& rows, int64_t padded, int64_t precision, float* scratch,
                               float* to, const Beside<Body>& work) {
  using M = typename I::Tiles;
  const int64_t pitch = p.layout.pitch;
  const Right keys = pairs_operand(p, scratch);
  const int64_t blocks = padded / kPairRows, all = blocks * (blocks + 1) / 2;
  int64_t products = 0, block = 0;
  for (int64_t r = 0; r < padded; r += kPairRows) {
    for (int64_t c = 0; c <= r; c += kPairRows) {
      products += multiply<M>(from_row(rows, r), from_column(keys, c), p.layout.matrix_dim, precision,
                              to + r * pitch + c, pitch, share_of(work, block, all));
      ++block;
    }
  }
  return products;
}

// Parts of `count` columns of a row, and zeros beside them, up to whole tiles.
template <class I, int N>
HJ_SLICE void split_triangle_row(const float* from, int64_t count, uint16_t* to, int64_t stride) {
  constexpr int W = I::W;
  using Int = typename VecOf<W>::I;
  static_assert(kPairRows % (2 * W) == 0 && kTileDepth == 2 * W);
  const int32_t end = static_cast<int32_t>(count);
  for (int32_t c = 0; c < end; c += 2 * W, to += kPairRows * kTileDepth) {
    const Int low = iota<W>() + c, high = low + W;
    const F<W> x = low < end ? load<W>(from + c) : F<W>{};
    const F<W> y = high < end ? load<W>(from + c + W) : F<W>{};
    split_rows<W, N>(x, y, to, stride);
  }
}

// What the value heads of a group share.
template <class I>
HJ_INLINE void prepare_matrix_chunk(const Problem& p, const Span& s, int64_t padded, float* scratch, Work* work) {
  using M = typename I::Tiles;
  const Layout& at = p.layout;
  const Left key = rows_operand(p, scratch, at.key_parts);
  const Left query = rows_operand(p, scratch, at.query_parts);
  const Left mix = weights_operand(p, scratch, at.mix_parts, at.output_parts);
  const Left lower = weights_operand(p, scratch, at.lower_parts, kStateParts);
  zero_rows(key, s.rows, padded);
  zero_rows(query, s.rows, padded);
  run<M>(splitting_inputs<I>(p, s, p.call.key, 1.0f, key, scratch + at.key_factor), kInputsRest);
  transpose_parts<I>(p, padded, scratch);
  const auto queries = splitting_inputs<I>(p, s, p.call.query, p.call.scale, query, scratch + at.query_factor);
  int64_t products = 0;
  if (p.delta) {
    products += lower_scores<I>(p, key, padded, kStateParts, scratch, scratch + at.kk, queries);
  } else {
    run<M>(queries, kInputsRest);
  }
  const auto lowering = beside(p.delta ? padded - kPairRows : 0, [&](int64_t i) HJ_INLINE_LAMBDA {
    const int64_t r = kPairRows + i;
    split_triangle_row<I, kStateParts>(scratch + at.kk + r * at.pitch, r / kPairRows * kPairRows, element(lower, r, 0),
                                       lower.stride);
  });
  products += lower_scores<I>(p, query, padded, at.output_parts, scratch, scratch + at.qk, lowering);
  with_parts(at.output_parts, [&](auto parts) HJ_INLINE_LAMBDA {
    const auto mixing = beside(padded, [&](int64_t r) HJ_INLINE_LAMBDA {
      split_triangle_row<I, decltype(parts)::value>(scratch + at.qk + r * at.pitch, r + 1, element(mix, r, 0),
                                                    mix.stride);
    });
    run<M>(mixing, kRowsRest);
  });
  work->macs += products * kTileMacs;
}

// Sums of the log decay, as far as they can be exponents of floats that are multiplied by one another.
constexpr double kMostDecay = 50;
HJ_INLINE bool is_mild(double sum) { return sum >= -kMostDecay && sum <= kMostDecay; }  // not so a NaN

// exp(sum) for a mild sum: what the float of it loses comes back as a factor.
HJ_INLINE float exp_of(double sum) {
  const float near = static_cast<float>(sum);
  return exp_nonpositive<kNarrowest>(splat<kNarrowest>(near))[0] *
         (static_cast<float>(sum - static_cast<double>(near)) + 1);
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

// The factors of a value head's rows. Norms, strengths and decays are all that tells its equations from those of the
// raw rows, and none is in a product: with d the decay since the state was last multiplied by its own and f the norm's
// factor of a key, f X / d, S and O / d are what keys, queries and their scores multiply. A decay of more than
// e^-kMostDecay would not allow that.
template <class I>
HJ_INLINE void prepare_matrix_head(const Problem& p, const Span& s, int64_t value_head, int64_t padded, double* pending,
                                   float* scratch) {
  const Layout& at = p.layout;
  load_strengths(p, s, value_head, scratch);
  decay_rows<I>(p, s, value_head, pending, scratch);
  I::Tiles::stay_awake();
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
