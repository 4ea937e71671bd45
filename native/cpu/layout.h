// How a worker's scratch is cut up for a plan that runs on matrix tiles or not.
#ifndef HAJAX_NATIVE_CPU_LAYOUT_H_
#define HAJAX_NATIVE_CPU_LAYOUT_H_

#include "native/cpu/problem.h"

namespace hajax::cpu {

Layout layout_of(const hj_cpu_plan& plan, bool matrix);

}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_LAYOUT_H_
