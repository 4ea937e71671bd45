// The arithmetic of Mmad on the host: float panels 16 columns wide, in versions for what the CPU has. Every version
// gives the same bits: each result adds its products in the order of k, one rounding an addition, and a product of two
// halves is exact in float, so that fused or not makes no difference.
#ifndef HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_GEMM_H_
#define HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_GEMM_H_

#include <stdint.h>

// Sums live in registers only when the compiler unrolls the loop over rows before it looks for memory that it can do
// without.
#if defined(__clang__)
#define HAJAX_UNROLL _Pragma("unroll")
#else
#define HAJAX_UNROLL _Pragma("GCC unroll 16")
#endif

namespace hajax::emulator {

inline constexpr int64_t kTile = 16;  // rows and columns of a fractal of results, and of 16-bit operands

struct GemmKernels {
  const char* name;

  // c[row][j] = (accumulate ? c[row][j] : 0) + a[row][0] * b[0][j] + ... + a[row][depth - 1] * b[depth - 1][j], j < 16.
  // Rows of `a` are a_stride floats apart, those of b and c 16. A NaN result is always 0x7fc00000: CPUs differ in which
  // they make.
  using Multiply = void (*)(const float* a, int64_t a_stride, const float* b, float* c, int64_t rows, int64_t depth,
                            bool accumulate);
  Multiply multiply;        // products are exact in float
  Multiply multiply_fused;  // any floats, product and addition rounded once

  // Rows of 16 halves that follow one another, to rows that are `stride` floats apart.
  void (*widen_rows)(const uint16_t* halves, float* floats, int64_t rows, int64_t stride);
  // 16 columns of 16 halves that follow one another, to 16 rows of 16 floats that do.
  void (*widen_transposed)(const uint16_t* halves, float* floats);
  // To nearest even, clamped to the largest half; NaN stays NaN. Returns how many were clamped.
  int64_t (*narrow)(const float* floats, uint16_t* halves, int64_t count);
};

const GemmKernels& gemm_kernels();  // the best that this CPU runs

extern const GemmKernels kGemmPlain;
#if defined(__x86_64__)
extern const GemmKernels kGemmAvx2;
extern const GemmKernels kGemmAvx512;
bool gemm_runs_avx2();
bool gemm_runs_avx512();
#endif

}  // namespace hajax::emulator

#endif  // HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_GEMM_H_
