// Without intrinsics: what every CPU runs, and what the other versions are compared with.
#include "native/emulator/instructions/gemm.h"

#include <math.h>
#include <string.h>

#include "native/emulator/core/half.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace hajax::emulator {
namespace {

constexpr uint32_t kNan = 0x7fc00000u;
constexpr uint16_t kHalfInfinity = 0x7c00;
constexpr uint16_t kHalfMost = 0x7bff;

// Four floats: every CPU here has registers of them, and the compilers have arithmetic on them.
typedef float Float4 __attribute__((vector_size(16)));  // NOLINT: `using` takes no such attribute in older compilers
constexpr int kQuarters = kTile / 4;

struct Exact {
  static Float4 add(Float4 sum, float a, Float4 b) { return sum + a * b; }
};

struct Fused {
  static Float4 add(Float4 sum, float a, Float4 b) {
    for (int i = 0; i < 4; ++i) sum[i] = fmaf(a, b[i], sum[i]);
    return sum;
  }
};

float canonical(float value) {
  if (value == value) return value;
  memcpy(&value, &kNan, sizeof value);
  return value;
}

template <typename Product, int kRows>
void multiply_rows(const float* a, int64_t a_stride, const float* b, float* c, int64_t depth, bool accumulate) {
  Float4 sum[kRows][kQuarters] = {};
  if (accumulate) memcpy(sum, c, sizeof sum);
  for (int64_t k = 0; k < depth; ++k) {
    Float4 b_row[kQuarters];
    memcpy(b_row, b + k * kTile, sizeof b_row);
    HAJAX_UNROLL
    for (int row = 0; row < kRows; ++row) {
      const float factor = a[row * a_stride + k];
      HAJAX_UNROLL
      for (int i = 0; i < kQuarters; ++i) sum[row][i] = Product::add(sum[row][i], factor, b_row[i]);
    }
  }
  memcpy(c, sum, sizeof sum);
  for (int i = 0; i < kRows * kTile; ++i) c[i] = canonical(c[i]);
}

template <typename Product>
void multiply(const float* a, int64_t a_stride, const float* b, float* c, int64_t rows, int64_t depth,
              bool accumulate) {
  int64_t row = 0;
  for (; row + 2 <= rows; row += 2) {
    multiply_rows<Product, 2>(a + row * a_stride, a_stride, b, c + row * kTile, depth, accumulate);
  }
  if (row < rows) multiply_rows<Product, 1>(a + row * a_stride, a_stride, b, c + row * kTile, depth, accumulate);
}

void widen_rows(const uint16_t* halves, float* floats, int64_t rows, int64_t stride) {
  for (int64_t row = 0; row < rows; ++row) {
    half_to_float(reinterpret_cast<const Half*>(halves + row * kTile), floats + row * stride, kTile);
  }
}

void widen_transposed(const uint16_t* halves, float* floats) {
  float columns[kTile * kTile];
  half_to_float(reinterpret_cast<const Half*>(halves), columns, kTile * kTile);
  for (int k = 0; k < kTile; ++k) {
    for (int j = 0; j < kTile; ++j) floats[k * kTile + j] = columns[j * kTile + k];
  }
}

int64_t narrow(const float* floats, uint16_t* halves, int64_t count) {
  int64_t clamped = 0;
  for (int64_t i = 0; i < count; ++i) {
    const uint16_t bits = half_bits(floats[i]);
    const bool infinite = (bits & 0x7fff) == kHalfInfinity;
    halves[i] = infinite ? static_cast<uint16_t>((bits & 0x8000) | kHalfMost) : bits;
    clamped += infinite;
  }
  return clamped;
}

}  // namespace

const GemmKernels kGemmPlain = {
    "plain", multiply<Exact>, multiply<Fused>, widen_rows, widen_transposed, narrow,
};

#if defined(__x86_64__)
bool gemm_runs_avx2() {
  unsigned int a, b, c, d;  // F16C is not a name that clang's __builtin_cpu_supports knows
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __get_cpuid(1, &a, &b, &c, &d) &&
         (c & bit_F16C);
}

bool gemm_runs_avx512() {
  return gemm_runs_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl");
}
#endif

const GemmKernels& gemm_kernels() {
#if defined(__x86_64__)
  static const GemmKernels& best = gemm_runs_avx512() ? kGemmAvx512 : gemm_runs_avx2() ? kGemmAvx2 : kGemmPlain;
  return best;
#else
  return kGemmPlain;
#endif
}

}  // namespace hajax::emulator
