// What the compiler assumes for the architecture: SSE2 on x86-64, 16 registers of 4 floats.
#include "native/cpu/kernels/convolution.h"
#include "native/cpu/kernels/gated_norm.h"
#include "native/cpu/kernels/task.h"

namespace hajax::cpu {
namespace {

struct Registers {
  static constexpr int W = 4;      // floats in a vector
  static constexpr int N = 2;      // vectors in a row of a tile
  static constexpr int kTall = 4;  // rows of the two tiles
  static constexpr int kShort = 4;
  static constexpr int kPanel = W * N;
  static_assert(kTall <= kRowSlack);
};

}  // namespace

extern const Kernels kKernelsBaseline = {kIsa_baseline, Registers::kPanel, run_task<Registers>,
                                         run_convolution<Registers::W>, run_gated_norm<Registers::W>};

}  // namespace hajax::cpu
