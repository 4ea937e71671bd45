// 32 registers of 16 floats, 16 of them accumulators, as AVX-512 has them; `M`: the matrix tiles beside them.
#ifndef HAJAX_NATIVE_CPU_KERNELS_WIDE_REGISTERS_H_
#define HAJAX_NATIVE_CPU_KERNELS_WIDE_REGISTERS_H_

#include "native/cpu/kernels/table.h"

namespace hajax::cpu {
namespace {

template <class M>
struct WideRegisters {
  static constexpr int W = 16;     // floats in a vector
  static constexpr int N = 2;      // vectors in a row of a tile
  static constexpr int kTall = 8;  // rows of the two tiles
  static constexpr int kShort = 4;
  static constexpr int kPanel = W * N;
  using Tiles = M;
  static_assert(kTall <= kRowSlack);
};

}  // namespace
}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_KERNELS_WIDE_REGISTERS_H_
