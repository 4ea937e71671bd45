// Conversions by the instructions there are for them: fp16 by F16C, which every CPU with AVX2 has (the dispatch
// checks), integers by AVX-512, which g++ makes of halves. Intrinsics, hence a file of its own.
#ifndef HAJAX_NATIVE_CPU_KERNELS_X86_CONVERSIONS_H_
#define HAJAX_NATIVE_CPU_KERNELS_X86_CONVERSIONS_H_

#include <immintrin.h>

#include "native/cpu/kernels/bf16.h"
#include "native/cpu/kernels/half.h"

namespace hajax::cpu {
namespace {

template <>
HJ_INLINE F<8> half_to_float<8>(VecOf<8>::H half) {
  return (F<8>)_mm256_cvtph_ps((__m128i)half);
}

template <>
HJ_INLINE VecOf<8>::H float_to_half<8>(F<8> x) {
  return (VecOf<8>::H)_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

#if defined(__AVX512F__)
constexpr __mmask16 kAllLanes = 0xffff;  // the unmasked intrinsics start from an undefined value, which g++ 12 warns of

template <>
HJ_INLINE F<16> half_to_float<16>(VecOf<16>::H half) {
  return (F<16>)_mm512_maskz_cvtph_ps(kAllLanes, (__m256i)half);
}

template <>
HJ_INLINE VecOf<16>::H float_to_half<16>(F<16> x) {
  return (VecOf<16>::H)_mm512_maskz_cvtps_ph(kAllLanes, (__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

template <>
HJ_INLINE VecOf<16>::U widen<16>(VecOf<16>::H x) {
  return (VecOf<16>::U)_mm512_maskz_cvtepu16_epi32(kAllLanes, (__m256i)x);
}

template <>
HJ_INLINE VecOf<16>::H narrow<16>(VecOf<16>::U x) {
  return (VecOf<16>::H)_mm512_maskz_cvtepi32_epi16(kAllLanes, (__m512i)x);
}

template <bool High>
HJ_INLINE void store_halves_avx512(uint16_t* to, VecOf<16>::U a, VecOf<16>::U b) {
  // Words of a are numbered 0 to 31, those of b from 32 on.
  constexpr int kFirst = High ? 0x00030001 : 0x00020000, kStep = 0x00040004;
  const VecOf<16>::I words = iota<16>() * kStep + kFirst;
  _mm512_storeu_si512(to, _mm512_permutex2var_epi16((__m512i)a, (__m512i)words, (__m512i)b));
}
template <>
HJ_INLINE void store_halves<16, true>(uint16_t* to, VecOf<16>::U a, VecOf<16>::U b) {
  store_halves_avx512<true>(to, a, b);
}
template <>
HJ_INLINE void store_halves<16, false>(uint16_t* to, VecOf<16>::U a, VecOf<16>::U b) {
  store_halves_avx512<false>(to, a, b);
}
#endif

#if defined(__AVX512BF16__)
template <>
HJ_INLINE VecOf<16>::H float_to_bf16<16>(F<16> x) {
  return (VecOf<16>::H)_mm512_maskz_cvtneps_pbh(kAllLanes, (__m512)x);
}
#endif

}  // namespace
}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_KERNELS_X86_CONVERSIONS_H_
