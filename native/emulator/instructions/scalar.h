// What the scalar unit computes and the registers that it sets, but for those of the vector unit (vector.h). Defined by
// the scalar pages of the Ascend C API reference. Arithmetic costs nothing here: the API's calls charge for it.
#ifndef HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_SCALAR_H_
#define HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_SCALAR_H_

#include "native/emulator/instructions/types.h"

#pragma GCC visibility push(default)

int64_t sff0(uint64_t value);  // place of the lowest 0, -1 when there is none
int64_t sff1(uint64_t value);
int64_t bcnt0(uint64_t value);  // how many bits are 0
int64_t bcnt1(uint64_t value);
int64_t clz(uint64_t value);                       // zeros above the highest 1; 64 for 0
int64_t sflbits(int64_t value);                    // bits below the sign that equal it, down from the top; -1 when all
uint64_t sbitset0(uint64_t value, int64_t place);  // with that bit 0
uint64_t sbitset1(uint64_t value, int64_t place);

half conv_f322f16o(float value);     // to the neighbour with an odd last bit; too large: the largest; NaN: 0
int32_t conv_f322s32a(float value);  // to nearest, ties away from 0; all four clamp to int32, NaN to 0
int32_t conv_f322s32c(float value);  // up
int32_t conv_f322s32f(float value);  // down
int32_t conv_f322s32r(float value);  // to nearest even

void set_fmatrix(uint64_t value);
void set_padding(uint64_t value);
void set_l1_3d_size(uint64_t value);

[[noreturn]] void trap();  // ends the kernel with an error

#pragma GCC visibility pop

#endif  // HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_SCALAR_H_
