// Operands of a chunk for matrix tiles: rows of keys and queries, transposed keys, their scores, and what one value
// head makes of them. Rows are taken as they are, exact in a few parts; norms and the scale go into factors of rows.
#ifndef HAJAX_NATIVE_CPU_KERNELS_MATRIX_CHUNK_H_
#define HAJAX_NATIVE_CPU_KERNELS_MATRIX_CHUNK_H_

#include "native/cpu/kernels/chunk.h"
#include "native/cpu/kernels/matrix.h"

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

// Columns past the dim were zeroed when the task began.
template <class I>
HJ_INLINE void split_matrix(const Left& to, int64_t rows, int64_t dim, const float* from) {
  for (int64_t r = 0; r < rows; ++r) {
    over_columns<I::W>(dim, [&](auto width, int64_t d) HJ_INLINE_LAMBDA {
      constexpr int V = decltype(width)::value;
      split_row<V, kStateParts>(load<V>(from + r * dim + d), element(to, r, d), to.stride);
    });
  }
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

// Whole tiles of the lower triangle of rows x keys, times the factors of both.
template <class I>
HJ_INLINE int64_t lower_scores(const Problem& p, const Left& rows, const float* row_factor, int64_t padded,
                               int64_t precision, float* scratch, float* to) {
  using M = typename I::Tiles;
  const int64_t pitch = p.layout.pitch;
  const Right keys = pairs_operand(p, scratch);
  int64_t products = 0;
  for (int64_t r = 0; r < padded; r += kPairRows) {
    for (int64_t c = 0; c <= r; c += kPairRows) {
      products += multiply<M>(from_row(rows, r), from_column(keys, c), p.layout.matrix_dim, precision,
                              to + r * pitch + c, pitch);
    }
    for (int64_t i = r; i < r + kPairRows; ++i) {
      const F<I::W> factor = splat<I::W>(row_factor[i]);
      for (int64_t c = 0; c < r + kPairRows; c += I::W) {
        float* score = to + i * pitch + c;
        store<I::W>(score, load<I::W>(score) * factor * load<I::W>(scratch + p.layout.key_factor + c));
      }
    }
  }
  return products;
}

// What the value heads of a group share.
template <class I>
HJ_INLINE void prepare_matrix_chunk(const Problem& p, const Span& s, int64_t padded, float* scratch, Work* work) {
  const Layout& at = p.layout;
  if (p.decay == kDecay_per_channel) return load_rows<I>(p, s, scratch);  // scores are each value head's own
  const Left key = rows_operand(p, scratch, at.key_parts);
  const Left query = rows_operand(p, scratch, at.query_parts);
  with_parts(at.input_parts, [&](auto parts) HJ_INLINE_LAMBDA {
    constexpr int N = decltype(parts)::value;
    split_inputs<I, N>(p, s, p.call.key, 1.0f, key, scratch + at.key_factor);
    split_inputs<I, N>(p, s, p.call.query, p.call.scale, query, scratch + at.query_factor);
  });
  for (int64_t r = s.rows; r < padded; ++r) scratch[at.key_factor + r] = scratch[at.query_factor + r] = 0;
  zero_rows(key, s.rows, padded);
  zero_rows(query, s.rows, padded);
  transpose_parts<I>(p, padded, scratch);
  int64_t products =
      lower_scores<I>(p, query, scratch + at.query_factor, padded, at.output_parts, scratch, scratch + at.qk);
  if (p.delta)
    products += lower_scores<I>(p, key, scratch + at.key_factor, padded, kStateParts, scratch, scratch + at.kk);
  work->macs += products * kTileMacs;
}

// Rows and transposed keys that channel.h decayed, as parts.
template <class I>
HJ_INLINE void split_decayed(const Problem& p, int64_t rows, int64_t padded, float* scratch) {
  const Layout& at = p.layout;
  const int64_t dim = p.plan.key_dim;
  const Left key = rows_operand(p, scratch, at.key_parts);
  const Left query = rows_operand(p, scratch, at.query_parts);
  const Left key_t = key_t_operand(p, scratch);
  split_matrix<I>(key, rows, dim, scratch + at.key_in);
  split_matrix<I>(query, rows, dim, scratch + at.query_in);
  zero_rows(key, rows, padded);
  zero_rows(query, rows, padded);
  const int64_t blocks = round_up(rows, kBlock);  // what is past the last token, up to a block, is zero
  for (int64_t d = 0; d < dim; ++d) {
    const float* from = scratch + at.key_t + d * at.pitch;
    over_columns<I::W>(blocks, [&](auto width, int64_t c) HJ_INLINE_LAMBDA {
      constexpr int V = decltype(width)::value;
      split_row<V, kStateParts>(load<V>(from + c), element(key_t, d, c), key_t.stride);
    });
    for (int64_t i = 0; i < kStateParts && blocks < padded; ++i) {
      __builtin_memset(element(key_t, d, blocks) + i * key_t.stride, 0,
                       static_cast<uint64_t>(padded - blocks) * sizeof(uint16_t));
    }
  }
}

// Parts of the lower triangle `from`, negated if asked, and zeros beside it in the tiles that products read.
template <class I, int N, bool Negate>
HJ_INLINE void split_triangle(const Problem& p, const float* from, int64_t rows, int64_t padded, const Left& to) {
  constexpr int W = I::W;
  static_assert(kPairRows % (2 * W) == 0);
  for (int64_t r = 0; r < padded; ++r) {
    const int64_t end = r / kPairRows * kPairRows + kPairRows;
    const int64_t inside = r < rows ? round_up(r + 1, W) : 0;
    for (int64_t c = 0; c < end; c += 2 * W) {
      const float* at = from + r * p.layout.pitch + c;
      const F<W> x = c < inside ? load<W>(at) : F<W>{};
      const F<W> y = c + W < inside ? load<W>(at + W) : F<W>{};
      split_rows<W, N>(Negate ? -x : x, Negate ? -y : y, element(to, r, c), to.stride);
    }
  }
}

// The weights of a value head as operands, and the factors of rows that are not in the operands.
template <class I>
HJ_INLINE void prepare_matrix_head(const Problem& p, int64_t rows, int64_t padded, float* scratch) {
  const Layout& at = p.layout;
  const bool by_channel = p.decay == kDecay_per_channel;
  if (by_channel) split_decayed<I>(p, rows, padded, scratch);
  for (int64_t r = 0; r < padded; ++r) {
    const float key = by_channel ? 1.0f : scratch[at.key_factor + r];
    const float query = by_channel ? 1.0f : scratch[at.query_factor + r];
    const bool inside = r < rows;
    scratch[at.key_scale + r] = inside ? scratch[at.from_start + r] * key : 0.0f;
    scratch[at.query_scale + r] = inside ? scratch[at.from_start + r] * query : 0.0f;
    scratch[at.update_scale + r] = inside ? scratch[at.to_end + r] * key : 0.0f;
    if (!inside) scratch[at.write + r] = scratch[at.erase + r] = 0;
  }
  const Left mix = weights_operand(p, scratch, at.mix_parts, at.output_parts);
  with_parts(at.output_parts, [&](auto parts) HJ_INLINE_LAMBDA {
    split_triangle<I, decltype(parts)::value, false>(p, scratch + at.mix, rows, padded, mix);
  });
  if (!p.delta) return;
  const Left lower = weights_operand(p, scratch, at.lower_parts, kStateParts);
  split_triangle<I, kStateParts, true>(p, scratch + at.lower, rows, padded, lower);
  // The triangles on the diagonal are solved in floats, whole tiles of them.
  for (int64_t r = rows; r < padded; ++r) {
    __builtin_memset(scratch + at.lower + r * at.pitch, 0, static_cast<uint64_t>(padded) * sizeof(float));
  }
}

}  // namespace
}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_KERNELS_MATRIX_CHUNK_H_
