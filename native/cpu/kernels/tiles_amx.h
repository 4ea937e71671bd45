// The eight tile registers of AMX: 16 rows of 64 bytes. Inline assembly, as the compilers' intrinsics want literals for
// tile numbers.
#ifndef HAJAX_NATIVE_CPU_KERNELS_TILES_AMX_H_
#define HAJAX_NATIVE_CPU_KERNELS_TILES_AMX_H_

#include "native/cpu/kernels/vec.h"

namespace hajax::cpu {
namespace {

struct AmxTiles {
  static constexpr bool kThere = true;

  // All tiles at their full size, all zero, until `release`.
  static HJ_INLINE void configure() {
    struct alignas(64) Config {
      uint8_t palette, start_row, reserved[14];
      uint16_t row_bytes[16];
      uint8_t rows[16];
    };
    Config config = {};
    config.palette = 1;
    for (int i = 0; i < 8; ++i) {
      config.row_bytes[i] = 64;
      config.rows[i] = 16;
    }
    __asm__ volatile("ldtilecfg %0" : : "m"(config));
  }
  static HJ_INLINE void release() { __asm__ volatile("tilerelease"); }

  template <int Tile>
  static HJ_INLINE void zero() {
    __asm__ volatile("tilezero %%tmm%c0" : : "i"(Tile));
  }
  // Past the first-level cache, where it would take the place of what is written.
  template <int Tile>
  static HJ_INLINE void stream(const void* from, int64_t pitch) {
    __asm__ volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(pitch), "i"(Tile) : "memory");
  }
  // Rows are `pitch` bytes apart.
  template <int Tile>
  static HJ_INLINE void load(const void* from, int64_t pitch) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(pitch), "i"(Tile) : "memory");
  }
  template <int Tile>
  static HJ_INLINE void store(void* to, int64_t pitch) {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(pitch), "i"(Tile) : "memory");
  }
  // to[16 x 16 floats] += a[16 x 32 bf16] b[16 pairs of rows x 16 columns]
  template <int To, int A, int B>
  static HJ_INLINE void multiply() {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(To), "i"(A), "i"(B));
  }
  // Tiles that rest for some 300 ns start again slowly: a product that follows takes up to a microsecond more (measured
  // on Sapphire Rapids). One now and then keeps them going; its sums are nobody's.
  static HJ_INLINE void stay_awake() { multiply<0, 4, 6>(); }
};

}  // namespace
}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_KERNELS_TILES_AMX_H_
