// AVX-512: 32 registers of 16 floats, 16 of them accumulators.
#include "native/cpu/kernels/table.h"
#include "native/cpu/kernels/x86_conversions.h"

namespace hajax::cpu {
namespace {

struct Registers {
  static constexpr int W = 16;     // floats in a vector
  static constexpr int N = 2;      // vectors in a row of a tile
  static constexpr int kTall = 8;  // rows of the two tiles
  static constexpr int kShort = 4;
  static constexpr int kPanel = W * N;
  using Tiles = NoTiles;
  static_assert(kTall <= kRowSlack);
};

}  // namespace

extern const Kernels kKernelsAvx512 = kernels_of<Registers>(kIsa_avx512);

}  // namespace hajax::cpu
