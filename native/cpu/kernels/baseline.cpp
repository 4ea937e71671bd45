// What the compiler assumes for the architecture: SSE2 on x86-64, 16 registers of 4 floats.
#include "native/cpu/kernels/table.h"

namespace hajax::cpu {
namespace {

struct Registers {
  static constexpr int W = 4;      // floats in a vector
  static constexpr int N = 2;      // vectors in a row of a tile
  static constexpr int kTall = 4;  // rows of the two tiles
  static constexpr int kShort = 4;
  static constexpr int kPanel = W * N;
  using Tiles = NoTiles;
  static_assert(kTall <= kRowSlack);
};

}  // namespace

extern const Kernels kKernelsBaseline = kernels_of<Registers>(kIsa_baseline);

}  // namespace hajax::cpu
