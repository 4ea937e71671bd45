// For x86-64 CPUs with AVX2, FMA and F16C. Only functions marked kTarget may use them: the file itself is compiled for
// every CPU, so nothing here may be a lambda or a template of the standard library.
#include "native/emulator/instructions/gemm.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "native/emulator/core/half.h"
#include "native/emulator/instructions/gemm_x86.h"

#define HAJAX_AVX2 __attribute__((target("avx2,fma,f16c")))

namespace hajax::emulator {
namespace x86 {
namespace {

HAJAX_AVX2 inline __m256i load(const uint16_t* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}

// Swaps places in pairs of rows that are `kApart` apart: one step of a transpose, for elements of 16, 32 and 64 bits.
HAJAX_AVX2 inline void interleave16(const __m256i* in, __m256i* out) {
  for (int i = 0; i < 8; ++i) {
    out[2 * i] = _mm256_unpacklo_epi16(in[2 * i], in[2 * i + 1]);
    out[2 * i + 1] = _mm256_unpackhi_epi16(in[2 * i], in[2 * i + 1]);
  }
}

HAJAX_AVX2 inline void interleave32(const __m256i* in, __m256i* out) {
  for (int i = 0; i < 4; ++i) {
    for (int part = 0; part < 2; ++part) {
      out[4 * i + 2 * part] = _mm256_unpacklo_epi32(in[4 * i + part], in[4 * i + 2 + part]);
      out[4 * i + 2 * part + 1] = _mm256_unpackhi_epi32(in[4 * i + part], in[4 * i + 2 + part]);
    }
  }
}

HAJAX_AVX2 inline void interleave64(const __m256i* in, __m256i* out) {
  for (int i = 0; i < 2; ++i) {
    for (int part = 0; part < 4; ++part) {
      out[8 * i + 2 * part] = _mm256_unpacklo_epi64(in[8 * i + part], in[8 * i + 4 + part]);
      out[8 * i + 2 * part + 1] = _mm256_unpackhi_epi64(in[8 * i + part], in[8 * i + 4 + part]);
    }
  }
}

HAJAX_AVX2 inline void store_row(__m256i halves, float* to) {
  _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm256_castsi256_si128(halves)));
  _mm256_storeu_ps(to + 8, _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1)));
}

}  // namespace

HAJAX_AVX2 void widen_rows(const uint16_t* halves, float* floats, int64_t rows, int64_t stride) {
  for (int64_t row = 0; row < rows; ++row) store_row(load(halves + row * kTile), floats + row * stride);
}

HAJAX_AVX2 void widen_transposed(const uint16_t* halves, float* floats) {
  __m256i one[kTile], two[kTile];
  for (int i = 0; i < kTile; ++i) one[i] = load(halves + i * kTile);
  interleave16(one, two);
  interleave32(two, one);
  interleave64(one, two);
  // Each 128-bit lane now holds eight columns' elements of one row: row i in the low lanes, row 8 + i in the high ones.
  for (int i = 0; i < 8; ++i) {
    store_row(_mm256_permute2x128_si256(two[i], two[8 + i], 0x20), floats + i * kTile);
    store_row(_mm256_permute2x128_si256(two[i], two[8 + i], 0x31), floats + (8 + i) * kTile);
  }
}

HAJAX_AVX2 int64_t narrow(const float* floats, uint16_t* halves, int64_t count) {
  const __m128i infinity = _mm_set1_epi16(0x7c00);
  const __m128i magnitude = _mm_set1_epi16(0x7fff);
  int64_t clamped = 0;
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    __m128i bits = _mm256_cvtps_ph(_mm256_loadu_ps(floats + i), _MM_FROUND_TO_NEAREST_INT);
    const __m128i infinite = _mm_cmpeq_epi16(_mm_and_si128(bits, magnitude), infinity);
    bits = _mm_add_epi16(bits, infinite);  // minus one: the largest half below infinity
    _mm_storeu_si128(reinterpret_cast<__m128i*>(halves + i), bits);
    clamped += __builtin_popcount(static_cast<unsigned>(_mm_movemask_epi8(infinite))) / 2;
  }
  return clamped + (i < count ? kGemmPlain.narrow(floats + i, halves + i, count - i) : 0);
}

}  // namespace x86

namespace {

HAJAX_AVX2 inline __m256 canonical(__m256 value) {
  const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000));
  return _mm256_blendv_ps(value, nan, _mm256_cmp_ps(value, value, _CMP_UNORD_Q));
}

// Six rows of sixteen columns fill the registers: twelve sums, two of b, one of a.
template <int kRows>
HAJAX_AVX2 void multiply_rows(const float* a, int64_t a_stride, const float* b, float* c, int64_t depth,
                              bool accumulate) {
  __m256 low[kRows], high[kRows];
  HAJAX_UNROLL
  for (int row = 0; row < kRows; ++row) {
    low[row] = accumulate ? _mm256_loadu_ps(c + row * kTile) : _mm256_setzero_ps();
    high[row] = accumulate ? _mm256_loadu_ps(c + row * kTile + 8) : _mm256_setzero_ps();
  }
  for (int64_t k = 0; k < depth; ++k) {
    const __m256 b_low = _mm256_loadu_ps(b + k * kTile);
    const __m256 b_high = _mm256_loadu_ps(b + k * kTile + 8);
    HAJAX_UNROLL
    for (int row = 0; row < kRows; ++row) {
      const __m256 factor = _mm256_broadcast_ss(a + row * a_stride + k);
      low[row] = _mm256_fmadd_ps(factor, b_low, low[row]);
      high[row] = _mm256_fmadd_ps(factor, b_high, high[row]);
    }
  }
  HAJAX_UNROLL
  for (int row = 0; row < kRows; ++row) {
    _mm256_storeu_ps(c + row * kTile, canonical(low[row]));
    _mm256_storeu_ps(c + row * kTile + 8, canonical(high[row]));
  }
}

void multiply(const float* a, int64_t a_stride, const float* b, float* c, int64_t rows, int64_t depth,
              bool accumulate) {
  using Rows = void (*)(const float*, int64_t, const float*, float*, int64_t, bool);
  static constexpr Rows kRows[] = {nullptr,          multiply_rows<1>, multiply_rows<2>, multiply_rows<3>,
                                   multiply_rows<4>, multiply_rows<5>, multiply_rows<6>};
  // Groups of nearly equal size: a last one of a single row would wait for each of its additions.
  for (int64_t row = 0, groups = (rows + 5) / 6; groups > 0; --groups) {
    const int64_t some = (rows - row + groups - 1) / groups;
    kRows[some](a + row * a_stride, a_stride, b, c + row * kTile, depth, accumulate);
    row += some;
  }
}

}  // namespace

const GemmKernels kGemmAvx2 = {
    "avx2", multiply, multiply, x86::widen_rows, x86::widen_transposed, x86::narrow,
};

}  // namespace hajax::emulator
#endif
