// Every version of the float panels behind Mmad that this CPU runs gives the same bits as the plain one. Prints the
// versions compared and exits with the number of differences.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <random>
#include <vector>

#include "native/emulator/core/half.h"
#include "native/emulator/instructions/gemm.h"

namespace {

using hajax::emulator::GemmKernels;
using hajax::emulator::kTile;

std::mt19937 generator(20230817);  // NOLINT: the same numbers everywhere

uint32_t draw(uint32_t below) { return static_cast<uint32_t>(generator()) % below; }

// Halves of every exponent, some of them infinite or NaN.
float draw_half() { return hajax::emulator::half_to_float(static_cast<uint16_t>(generator())); }

float draw_float() {
  const auto mantissa = static_cast<float>(static_cast<int32_t>(generator()));
  return ldexpf(mantissa, static_cast<int>(draw(60)) - 60);
}

template <typename T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

int compare_products(const GemmKernels& kernels, bool fused) {
  int differences = 0;
  for (int turn = 0; turn < 400; ++turn) {
    const int64_t rows = 1 + draw(70), depth = 1 + draw(turn % 7 == 0 ? 600 : 40), stride = depth + draw(20);
    const bool accumulate = draw(2) != 0;
    std::vector<float> a(static_cast<size_t>(rows * stride)), b(static_cast<size_t>(depth * kTile)),
        c(static_cast<size_t>(rows * kTile));
    for (auto* numbers : {&a, &b}) {
      for (float& x : *numbers) x = fused ? draw_float() : draw_half();
    }
    for (float& x : c) x = draw_float();
    std::vector<float> expected = c;
    const GemmKernels& plain = hajax::emulator::kGemmPlain;
    (fused ? plain.multiply_fused : plain.multiply)(a.data(), stride, b.data(), expected.data(), rows, depth,
                                                    accumulate);
    (fused ? kernels.multiply_fused : kernels.multiply)(a.data(), stride, b.data(), c.data(), rows, depth, accumulate);
    differences += !same(c, expected);
  }
  return differences;
}

int compare_conversions(const GemmKernels& kernels) {
  int differences = 0;
  std::vector<uint16_t> halves(1 << 16), narrow(1 << 16), expected_narrow(1 << 16);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
  std::vector<float> wide(1 << 16), expected_wide(1 << 16);
  constexpr int64_t kFractal = kTile * kTile;
  const GemmKernels& plain = hajax::emulator::kGemmPlain;
  for (int64_t at = 0; at < 1 << 16; at += kFractal) {
    kernels.widen_transposed(halves.data() + at, wide.data() + at);
    plain.widen_transposed(halves.data() + at, expected_wide.data() + at);
  }
  differences += !same(wide, expected_wide);
  kernels.widen_rows(halves.data(), wide.data(), 100, 20);
  plain.widen_rows(halves.data(), expected_wide.data(), 100, 20);
  differences += !same(wide, expected_wide);
  for (int turn = 0; turn < 20; ++turn) {
    for (float& x : wide) x = draw(2) != 0 ? draw_float() : ldexpf(draw_half(), static_cast<int>(draw(8)) - 4);
    const int64_t count = static_cast<int64_t>(wide.size()) - turn;
    const int64_t clamped = plain.narrow(wide.data(), expected_narrow.data(), count);
    differences += kernels.narrow(wide.data(), narrow.data(), count) != clamped || clamped == 0;
    differences += !same(narrow, expected_narrow);
  }
  return differences;
}

}  // namespace

int main() {
  std::vector<const GemmKernels*> versions = {&hajax::emulator::gemm_kernels()};
#if defined(__x86_64__)
  if (hajax::emulator::gemm_runs_avx2()) versions.push_back(&hajax::emulator::kGemmAvx2);
  if (hajax::emulator::gemm_runs_avx512()) versions.push_back(&hajax::emulator::kGemmAvx512);
#endif
  int differences = 0;
  for (const GemmKernels* version : versions) {
    const int found =
        compare_products(*version, false) + compare_products(*version, true) + compare_conversions(*version);
    printf("%s %d\n", version->name, found);
    differences += found;
  }
  return differences == 0 ? 0 : 1;
}
