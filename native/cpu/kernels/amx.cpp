// AMX beside AVX-512: whole chunks on matrix tiles, single tokens and all that is elementwise as avx512.cpp has it.
#include "native/cpu/kernels/tiles_amx.h"
#include "native/cpu/kernels/wide_registers.h"

namespace hajax::cpu {

extern const Kernels kKernelsAmx = kernels_of<WideRegisters<AmxTiles>>(kIsa_amx);

}  // namespace hajax::cpu
