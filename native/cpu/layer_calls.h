// Checks and runs the pieces of a layer around the operator.
#ifndef HAJAX_NATIVE_CPU_LAYER_CALLS_H_
#define HAJAX_NATIVE_CPU_LAYER_CALLS_H_

#include "hajax/abi/hajax.h"
#include "native/cpu/failure.h"

namespace hajax::cpu {

Failure convolve(const hj_convolution* call, const hj_parallel* parallel);
Failure normalise_gated(const hj_gated_norm* call, const hj_parallel* parallel);

}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_LAYER_CALLS_H_
