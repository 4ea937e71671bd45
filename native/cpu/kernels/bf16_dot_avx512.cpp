// K K^T and Q K^T of bf16 rows through VDPBF16PS: two products a lane and instruction, summed in fp32. Intrinsics,
// hence a file of its own.
#include <immintrin.h>

#include "native/cpu/kernels/tile.h"
#include "native/cpu/problem.h"

namespace hajax::cpu {
namespace {

constexpr int kWidth = 16;
constexpr int kVectors = 2;
constexpr int kTileRows = 8;

HJ_INLINE uint32_t pair_at(const uint16_t* p) {
  uint32_t pair;
  __builtin_memcpy(&pair, p, sizeof pair);
  return pair;
}

// pairs[d][token]: elements 2 d and 2 d + 1 of each key. Tokens past the end are zero up to the next whole tile.
HJ_INLINE void pack_pairs(const Gram& g) {
  const int64_t padded = round_up(g.rows, kWidth * kVectors) < g.pitch ? round_up(g.rows, kWidth * kVectors) : g.pitch;
  for (int64_t d = 0; d < g.dim / 2; ++d) {
    uint32_t* to = g.pairs + d * g.pitch;
    for (int64_t r = 0; r < g.rows; ++r) to[r] = pair_at(g.key + r * g.stride + 2 * d);
    for (int64_t r = g.rows; r < padded; ++r) to[r] = 0;
  }
}

int64_t lower_product(const Gram& g, const uint16_t* rows, const float* row_factor, float* to) {
  int64_t macs = 0;
  for (int64_t r = 0; r < g.rows; r += kTileRows) {
    const uint16_t* row[kTileRows];
    HJ_UNROLL
    for (int i = 0; i < kTileRows; ++i) row[i] = rows + (r + i < g.rows ? r + i : g.rows - 1) * g.stride;
    for (int64_t c = 0; c < r + kTileRows; c += kWidth * kVectors) {
      __m512 acc[kTileRows][kVectors];
      HJ_UNROLL
      for (int i = 0; i < kTileRows; ++i) {
        HJ_UNROLL
        for (int j = 0; j < kVectors; ++j) acc[i][j] = _mm512_setzero_ps();
      }
      for (int64_t d = 0; d < g.dim / 2; ++d) {
        __m512bh key[kVectors];
        HJ_UNROLL
        for (int j = 0; j < kVectors; ++j)
          key[j] = (__m512bh)_mm512_loadu_si512(g.pairs + d * g.pitch + c + j * kWidth);
        HJ_UNROLL
        for (int i = 0; i < kTileRows; ++i) {
          const __m512bh pair = (__m512bh)_mm512_set1_epi32(static_cast<int32_t>(pair_at(row[i] + 2 * d)));
          HJ_UNROLL
          for (int j = 0; j < kVectors; ++j) acc[i][j] = _mm512_dpbf16_ps(acc[i][j], pair, key[j]);
        }
      }
      HJ_UNROLL
      for (int i = 0; i < kTileRows; ++i) {
        if (r + i >= g.rows) continue;  // rows past the end are never read
        HJ_UNROLL
        for (int j = 0; j < kVectors; ++j) {
          // Factors past the last token are whatever scratch holds; the reader masks those columns.
          const __m512 column_factor = _mm512_loadu_ps(g.key_factor + c + j * kWidth);
          const __m512 factor = _mm512_mul_ps(_mm512_set1_ps(row_factor[r + i]), column_factor);
          _mm512_storeu_ps(to + (r + i) * g.pitch + c + j * kWidth, _mm512_mul_ps(acc[i][j], factor));
        }
      }
      macs += kTileRows * kVectors * kWidth * g.dim;
    }
  }
  return macs;
}

}  // namespace

int64_t gram_bf16_avx512(const Gram& g) {
  pack_pairs(g);
  return lower_product(g, g.key, g.key_factor, g.kk) + lower_product(g, g.query, g.query_factor, g.qk);
}

}  // namespace hajax::cpu
