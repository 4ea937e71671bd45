// The tile registers of AMX in memory, on any CPU: what the kernel that uses them is tested with where there are none.
#ifndef HAJAX_NATIVE_CPU_KERNELS_TILES_PORTABLE_H_
#define HAJAX_NATIVE_CPU_KERNELS_TILES_PORTABLE_H_

#include "native/cpu/kernels/vec.h"

namespace hajax::cpu {
namespace {

constexpr int kTileRegisters = 8;
constexpr int kTileSide = 16;  // rows, and 32-bit elements of a row

struct TileRegister {
  float at[kTileSide][kTileSide];
};
thread_local TileRegister tile_registers[kTileRegisters];

struct PortableTiles {
  static constexpr bool kThere = true;

  static void configure() { __builtin_memset(tile_registers, 0, sizeof tile_registers); }
  static void release() {}
  static void stay_awake() {}

  template <int Tile>
  static void zero() {
    __builtin_memset(&tile_registers[Tile], 0, sizeof(TileRegister));
  }
  template <int Tile>
  static void load(const void* from, int64_t pitch) {
    for (int r = 0; r < kTileSide; ++r) {
      __builtin_memcpy(tile_registers[Tile].at[r], static_cast<const char*>(from) + r * pitch,
                       sizeof(float) * kTileSide);
    }
  }
  template <int Tile>
  static void stream(const void* from, int64_t pitch) {
    load<Tile>(from, pitch);
  }
  template <int Tile>
  static void store(void* to, int64_t pitch) {
    for (int r = 0; r < kTileSide; ++r) {
      __builtin_memcpy(static_cast<char*>(to) + r * pitch, tile_registers[Tile].at[r], sizeof(float) * kTileSide);
    }
  }
  // As the instruction has it, sums of even and of odd elements are apart until they join the accumulator.
  template <int To, int A, int B>
  static void multiply() {
    using U = VecOf<kTileSide>::U;
    constexpr uint32_t kHigh = 0xffff0000;
    constexpr int kHalf = 16;
    for (int r = 0; r < kTileSide; ++r) {
      F<kTileSide> even{}, odd{};
      for (int k = 0; k < kTileSide; ++k) {
        uint32_t pair;
        __builtin_memcpy(&pair, &tile_registers[A].at[r][k], sizeof pair);
        const U a = pair + U{};
        const U b = (U)cpu::load<kTileSide>(tile_registers[B].at[k]);
        even += (F<kTileSide>)(a << kHalf) * (F<kTileSide>)(b << kHalf);
        odd += (F<kTileSide>)(a & kHigh) * (F<kTileSide>)(b & kHigh);
      }
      float* to = tile_registers[To].at[r];
      cpu::store<kTileSide>(to, cpu::load<kTileSide>(to) + (even + odd));
    }
  }
};

}  // namespace
}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_KERNELS_TILES_PORTABLE_H_
