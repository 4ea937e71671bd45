// How a worker's scratch is cut up for a gradient: what it shares with the forward kernel first.
#ifndef HAJAX_NATIVE_CPU_BACKWARD_LAYOUT_H_
#define HAJAX_NATIVE_CPU_BACKWARD_LAYOUT_H_

#include "native/cpu/backward_problem.h"

namespace hajax::cpu {

// For rows of `tokens`, the longest sequence that there can be.
BackwardLayout backward_layout_of(const hj_cpu_plan& plan, int64_t tokens, Layout* forward);

}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_BACKWARD_LAYOUT_H_
