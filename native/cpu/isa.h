// Which kernels were built and which of them this CPU can run.
#ifndef HAJAX_NATIVE_CPU_ISA_H_
#define HAJAX_NATIVE_CPU_ISA_H_

#include <stdint.h>

#include "native/cpu/problem.h"

namespace hajax::cpu {

const Kernels* built_kernels(int32_t isa);  // null when not built
bool isa_runs(int32_t isa);                 // built, and this CPU has it
GramFunction bf16_gram();                   // null when not built or this CPU lacks it
const char* isa_name(int32_t isa);          // null when isas.def has no such number

}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_ISA_H_
