// B x B blocks transposed in registers.
#ifndef HAJAX_NATIVE_CPU_KERNELS_TRANSPOSE_H_
#define HAJAX_NATIVE_CPU_KERNELS_TRANSPOSE_H_

#include "native/cpu/kernels/vec.h"

namespace hajax::cpu {
namespace {

// Lane j of the result is lane from(j) of a, or of b when from(j) >= W. The two compilers spell it differently.
#if defined(__clang__)
#define HJ_SHUFFLE4(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#define HJ_SHUFFLE8(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define HJ_SHUFFLE4(a, b, ...) __builtin_shuffle(a, b, VecOf<4>::I{__VA_ARGS__})
#define HJ_SHUFFLE8(a, b, ...) __builtin_shuffle(a, b, VecOf<8>::I{__VA_ARGS__})
#endif

template <int B>
HJ_INLINE void transpose_block(const float* from, int64_t from_pitch, float* to, int64_t to_pitch);

template <>
HJ_INLINE void transpose_block<4>(const float* from, int64_t from_pitch, float* to, int64_t to_pitch) {
  const F<4> r0 = load<4>(from), r1 = load<4>(from + from_pitch);
  const F<4> r2 = load<4>(from + 2 * from_pitch), r3 = load<4>(from + 3 * from_pitch);
  const F<4> low01 = HJ_SHUFFLE4(r0, r1, 0, 4, 1, 5), high01 = HJ_SHUFFLE4(r0, r1, 2, 6, 3, 7);
  const F<4> low23 = HJ_SHUFFLE4(r2, r3, 0, 4, 1, 5), high23 = HJ_SHUFFLE4(r2, r3, 2, 6, 3, 7);
  store<4>(to, HJ_SHUFFLE4(low01, low23, 0, 1, 4, 5));
  store<4>(to + to_pitch, HJ_SHUFFLE4(low01, low23, 2, 3, 6, 7));
  store<4>(to + 2 * to_pitch, HJ_SHUFFLE4(high01, high23, 0, 1, 4, 5));
  store<4>(to + 3 * to_pitch, HJ_SHUFFLE4(high01, high23, 2, 3, 6, 7));
}

template <>
HJ_INLINE void transpose_block<8>(const float* from, int64_t from_pitch, float* to, int64_t to_pitch) {
  F<8> r[8], pairs[8], quads[8];
  HJ_UNROLL
  for (int i = 0; i < 8; ++i) r[i] = load<8>(from + i * from_pitch);
  HJ_UNROLL
  for (int i = 0; i < 8; i += 2) {
    pairs[i] = HJ_SHUFFLE8(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    pairs[i + 1] = HJ_SHUFFLE8(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  HJ_UNROLL
  for (int i = 0; i < 8; i += 4) {
    quads[i] = HJ_SHUFFLE8(pairs[i], pairs[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
    quads[i + 1] = HJ_SHUFFLE8(pairs[i], pairs[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    quads[i + 2] = HJ_SHUFFLE8(pairs[i + 1], pairs[i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
    quads[i + 3] = HJ_SHUFFLE8(pairs[i + 1], pairs[i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
  }
  HJ_UNROLL
  for (int i = 0; i < 4; ++i) {
    store<8>(to + i * to_pitch, HJ_SHUFFLE8(quads[i], quads[i + 4], 0, 1, 2, 3, 8, 9, 10, 11));
    store<8>(to + (i + 4) * to_pitch, HJ_SHUFFLE8(quads[i], quads[i + 4], 4, 5, 6, 7, 12, 13, 14, 15));
  }
}

#undef HJ_SHUFFLE4
#undef HJ_SHUFFLE8

}  // namespace
}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_KERNELS_TRANSPOSE_H_
