// The kernel for matrix tiles on any CPU, with the tiles in memory: slow, for its tests.
#include "native/cpu/kernels/table.h"
#include "native/cpu/kernels/tiles_portable.h"

namespace hajax::cpu {
namespace {

struct Registers {
  static constexpr int W = 16;     // floats in a vector
  static constexpr int N = 2;      // vectors in a row of a tile
  static constexpr int kTall = 8;  // rows of the two tiles
  static constexpr int kShort = 4;
  static constexpr int kPanel = W * N;
  using Tiles = PortableTiles;
  static_assert(kTall <= kRowSlack);
};

}  // namespace

extern const Kernels kKernelsTiles = kernels_of<Registers>(kIsa_tiles);

}  // namespace hajax::cpu
