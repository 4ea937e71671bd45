// For x86-64 CPUs with AVX-512 F, BW and VL: a row of sixteen columns is one register.
#include "native/emulator/instructions/gemm.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "native/emulator/instructions/gemm_x86.h"

#define HAJAX_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl")))

namespace hajax::emulator {
namespace {

constexpr int kMostRows = 12;

template <int kRows>
HAJAX_AVX512 void multiply_rows(const float* a, int64_t a_stride, const float* b, float* c, int64_t depth,
                                bool accumulate) {
  __m512 sum[kRows];
  HAJAX_UNROLL
  for (int row = 0; row < kRows; ++row) {
    sum[row] = accumulate ? _mm512_loadu_ps(c + row * kTile) : _mm512_setzero_ps();
  }
  for (int64_t k = 0; k < depth; ++k) {
    const __m512 b_row = _mm512_loadu_ps(b + k * kTile);
    HAJAX_UNROLL
    for (int row = 0; row < kRows; ++row) {
      sum[row] = _mm512_fmadd_ps(_mm512_set1_ps(a[row * a_stride + k]), b_row, sum[row]);
    }
  }
  const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32(0x7fc00000));
  HAJAX_UNROLL
  for (int row = 0; row < kRows; ++row) {
    const __mmask16 unordered = _mm512_cmp_ps_mask(sum[row], sum[row], _CMP_UNORD_Q);
    _mm512_storeu_ps(c + row * kTile, _mm512_mask_mov_ps(sum[row], unordered, nan));
  }
}

void multiply(const float* a, int64_t a_stride, const float* b, float* c, int64_t rows, int64_t depth,
              bool accumulate) {
  using Rows = void (*)(const float*, int64_t, const float*, float*, int64_t, bool);
  static constexpr Rows kRows[] = {nullptr,          multiply_rows<1>, multiply_rows<2>,  multiply_rows<3>,
                                   multiply_rows<4>, multiply_rows<5>, multiply_rows<6>,  multiply_rows<7>,
                                   multiply_rows<8>, multiply_rows<9>, multiply_rows<10>, multiply_rows<11>,
                                   multiply_rows<12>};
  for (int64_t row = 0, groups = (rows + kMostRows - 1) / kMostRows; groups > 0; --groups) {
    const int64_t some = (rows - row + groups - 1) / groups;
    kRows[some](a + row * a_stride, a_stride, b, c + row * kTile, depth, accumulate);
    row += some;
  }
}

}  // namespace

const GemmKernels kGemmAvx512 = {
    "avx512", multiply, multiply, x86::widen_rows, x86::widen_transposed, x86::narrow,
};

}  // namespace hajax::emulator
#endif
