// Arrays of floats to fp16 as vector results are: to nearest even, saturated, NaN to 0.
#ifndef HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_VECTOR_HALF_H_
#define HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_VECTOR_HALF_H_

#include "native/emulator/core/half.h"

namespace hajax::emulator {

// With the CPU's own conversion where it has one; the same bits either way.
void saturate_halves(const float* from, Half* to, int count);

}  // namespace hajax::emulator

#endif  // HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_VECTOR_HALF_H_
