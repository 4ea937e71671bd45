// AVX2 and FMA: 16 registers of 8 floats, 12 of them accumulators.
#include "native/cpu/kernels/table.h"

namespace hajax::cpu {
namespace {

struct Registers {
  static constexpr int W = 8;      // floats in a vector
  static constexpr int N = 2;      // vectors in a row of a tile
  static constexpr int kTall = 6;  // rows of the two tiles
  static constexpr int kShort = 4;
  static constexpr int kPanel = W * N;
  using Tiles = NoTiles;
  static_assert(kTall <= kRowSlack);
};

}  // namespace

extern const Kernels kKernelsAvx2 = kernels_of<Registers>(kIsa_avx2);

}  // namespace hajax::cpu
