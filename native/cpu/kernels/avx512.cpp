// AVX-512: 32 registers of 16 floats, 16 of them accumulators.
#include "native/cpu/kernels/wide_registers.h"

namespace hajax::cpu {

extern const Kernels kKernelsAvx512 = kernels_of<WideRegisters<NoTiles>>(kIsa_avx512);

}  // namespace hajax::cpu
