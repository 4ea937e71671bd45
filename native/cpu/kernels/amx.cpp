// AMX beside AVX-512: whole chunks on matrix tiles, single tokens and all that is elementwise as avx512.cpp has it.
#include "native/cpu/kernels/table.h"
#include "native/cpu/kernels/tiles_amx.h"
#include "native/cpu/kernels/x86_conversions.h"

namespace hajax::cpu {
namespace {

struct Registers {
  static constexpr int W = 16;     // floats in a vector
  static constexpr int N = 2;      // vectors in a row of a tile
  static constexpr int kTall = 8;  // rows of the two tiles
  static constexpr int kShort = 4;
  static constexpr int kPanel = W * N;
  using Tiles = AmxTiles;
  static_assert(kTall <= kRowSlack);
};

}  // namespace

extern const Kernels kKernelsAmx = kernels_of<Registers>(kIsa_amx);

}  // namespace hajax::cpu
