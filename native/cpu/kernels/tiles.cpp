// The kernel for matrix tiles on any CPU, with the tiles in memory: slow, for its tests.
#include "native/cpu/kernels/tiles_portable.h"
#include "native/cpu/kernels/wide_registers.h"

namespace hajax::cpu {

extern const Kernels kKernelsTiles = kernels_of<WideRegisters<PortableTiles>>(kIsa_tiles);

}  // namespace hajax::cpu
