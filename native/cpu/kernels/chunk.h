// What the value heads of a group share in a chunk: the key and query rows as floats, the transposed keys, K K^T and Q
// K^T.
#ifndef HAJAX_NATIVE_CPU_KERNELS_CHUNK_H_
#define HAJAX_NATIVE_CPU_KERNELS_CHUNK_H_

#include "native/cpu/kernels/elements.h"
#include "native/cpu/kernels/tile.h"
#include "native/cpu/kernels/transpose.h"
#include "native/cpu/problem.h"

namespace hajax::cpu {
namespace {

// Tokens [first, first + rows) of row `batch`, and whose they are.
struct Span {
  int64_t batch;
  int64_t first;
  int64_t rows;
  int64_t key_head;
};

HJ_INLINE int64_t key_offset(const Problem& p, const Span& s, int64_t row) {
  const int64_t token = s.batch * p.call.tokens + s.first + row;
  return (token * p.plan.key_heads + s.key_head) * p.plan.key_dim;
}

// Index of (token, value head) in one beta and the scalar log decay; times Dv, in value and output.
HJ_INLINE int64_t head_offset(const Problem& p, const Span& s, int64_t row, int64_t value_head) {
  return (s.batch * p.call.tokens + s.first + row) * p.plan.value_heads + value_head;
}

// Four running sums, as one would wait for the adder. All ISAs sum in the same order.
HJ_INLINE float sum_of_squares(int32_t dtype, const void* base, int64_t offset, int64_t dim) {
  constexpr int kSums = 4;
  F<kNarrowest> squares[kSums] = {};
  int64_t d = 0;
  for (; d + kSums * kNarrowest <= dim; d += kSums * kNarrowest) {
    HJ_UNROLL
    for (int i = 0; i < kSums; ++i) {
      const F<kNarrowest> x = load_as<kNarrowest>(dtype, base, offset + d + i * kNarrowest);
      squares[i] += x * x;
    }
  }
  for (; d < dim; d += kNarrowest) {
    const F<kNarrowest> x = load_as<kNarrowest>(dtype, base, offset + d);
    squares[0] += x * x;
  }
  return sum<kNarrowest>((squares[0] + squares[1]) + (squares[2] + squares[3]));
}

// Asks for the cache lines of a row ahead of its use, into the second-level cache: rows lie a whole token apart, mostly
// on a page each, which no hardware prefetcher follows.
HJ_INLINE void prefetch_row(int32_t dtype, const void* base, int64_t index, int64_t elements) {
  constexpr int kRead = 0;
  constexpr int kSecondLevel = 2;
  const int64_t bytes = dtype == kDtype_float32 ? kDtypeBytes_float32 : kDtypeBytes_float16;
  const char* row = static_cast<const char*>(base) + index * bytes;
  for (int64_t at = 0; at < elements * bytes; at += kCacheLine) __builtin_prefetch(row + at, kRead, kSecondLevel);
}

// One row to float, times `scale` and, if asked, divided by its norm. Returns the factor it was multiplied by.
template <int W>
HJ_INLINE float load_row(const Problem& p, const void* base, int64_t offset, float scale, float* to) {
  const int64_t dim = p.plan.key_dim;
  const int32_t dtype = p.plan.input_dtype;
  float factor = scale;
  if (p.call.l2norm_eps >= 0) {
    factor = scale / __builtin_sqrtf(sum_of_squares(dtype, base, offset, dim) + p.call.l2norm_eps);
  }
  over_columns<W>(dim, [&](auto width, int64_t d) HJ_INLINE_LAMBDA {
    constexpr int V = decltype(width)::value;
    store<V>(to + d, load_as<V>(dtype, base, offset + d) * splat<V>(factor));
  });
  return factor;
}

template <class I>
HJ_INLINE void load_rows(const Problem& p, const Span& s, float* scratch) {
  const Layout& at = p.layout;
  const int64_t dim = p.plan.key_dim;
  for (int64_t r = 0; r < s.rows; ++r) {
    const int64_t offset = key_offset(p, s, r);
    scratch[at.key_factor + r] = load_row<I::W>(p, p.call.key, offset, 1.0f, scratch + at.key + r * dim);
    scratch[at.query_factor + r] = load_row<I::W>(p, p.call.query, offset, p.call.scale, scratch + at.query + r * dim);
  }
  // Row tiles overshoot the last token: those rows must be finite, and zero leaves no trace.
  __builtin_memset(scratch + at.key + s.rows * dim, 0, static_cast<uint64_t>(kRowSlack * dim) * sizeof(float));
  __builtin_memset(scratch + at.query + s.rows * dim, 0, static_cast<uint64_t>(kRowSlack * dim) * sizeof(float));
}

// Columns past the last token, up to a whole block, become the zeros that load_rows left; whoever reads further masks.
template <class I>
HJ_INLINE void transpose_keys(const Problem& p, int64_t rows, float* scratch) {
  constexpr int B = I::W < kNarrowest ? I::W : kNarrowest;
  const int64_t dim = p.plan.key_dim;
  const int64_t pitch = p.layout.pitch;
  const float* key = scratch + p.layout.key;
  float* to = scratch + p.layout.key_t;
  for (int64_t r = 0; r < rows; r += B) {
    for (int64_t d = 0; d < dim; d += B) transpose_block<B>(key + r * dim + d, dim, to + d * pitch + r, pitch);
  }
}

// Lower triangle of rows x keys, whole tiles; b is the transposed keys, not packed.
template <class I>
HJ_INLINE int64_t lower_product(const float* rows, int64_t dim, const float* key_t, int64_t pitch, int64_t count,
                                float* to) {
  constexpr int W = I::W;
  constexpr int N = I::N;
  int64_t macs = 0;
  over_rows<I::kTall, I::kShort>(count, [&](auto height, int64_t r) HJ_INLINE_LAMBDA {
    constexpr int R = decltype(height)::value;
    for (int64_t c = 0; c < r + R; c += N * W) {
      Tile<W, N, R> t;
      clear(t);
      accumulate_strided(t, rows + r * dim, dim, key_t + c, pitch, dim);
      store_strided(to + r * pitch + c, pitch, t);
      macs += R * N * W * dim;
    }
  });
  return macs;
}

// With a decay per channel keys and scores are each value head's own: channel.h.
template <class I>
HJ_INLINE void prepare_chunk(const Problem& p, const Span& s, float* scratch, Work* work) {
  const Layout& at = p.layout;
  load_rows<I>(p, s, scratch);
  if (p.decay == kDecay_per_channel) return;
  transpose_keys<I>(p, s.rows, scratch);
  if (p.gram != nullptr) {
    Gram g;
    const int64_t offset = key_offset(p, s, 0);
    g.key = static_cast<const uint16_t*>(p.call.key) + offset;
    g.query = static_cast<const uint16_t*>(p.call.query) + offset;
    g.stride = static_cast<int64_t>(p.plan.key_heads) * p.plan.key_dim;
    g.rows = s.rows;
    g.dim = p.plan.key_dim;
    g.key_factor = scratch + at.key_factor;
    g.query_factor = scratch + at.query_factor;
    g.pairs = reinterpret_cast<uint32_t*>(scratch + at.key_pairs);
    g.kk = scratch + at.kk;
    g.qk = scratch + at.qk;
    g.pitch = at.pitch;
    work->macs += p.gram(g);
    return;
  }
  const float* key_t = scratch + at.key_t;
  if (p.delta) {
    work->macs += lower_product<I>(scratch + at.key, p.plan.key_dim, key_t, at.pitch, s.rows, scratch + at.kk);
  }
  work->macs += lower_product<I>(scratch + at.query, p.plan.key_dim, key_t, at.pitch, s.rows, scratch + at.qk);
}

}  // namespace
}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_KERNELS_CHUNK_H_
