// What the AVX2 and the AVX-512 version share: 16-bit transposes and conversions of F16C, which both have.
#ifndef HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_GEMM_X86_H_
#define HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_GEMM_X86_H_

#include <stdint.h>

namespace hajax::emulator::x86 {

void widen_rows(const uint16_t* halves, float* floats, int64_t rows, int64_t stride);
void widen_transposed(const uint16_t* halves, float* floats);
int64_t narrow(const float* floats, uint16_t* halves, int64_t count);

}  // namespace hajax::emulator::x86

#endif  // HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_GEMM_X86_H_
