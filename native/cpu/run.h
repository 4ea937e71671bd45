// Hands the tasks of a checked call to the workers and sums what they counted.
#ifndef HAJAX_NATIVE_CPU_RUN_H_
#define HAJAX_NATIVE_CPU_RUN_H_

#include "native/cpu/failure.h"
#include "native/cpu/plan_view.h"

namespace hajax::cpu {

Failure run(const PlanView& view, const hj_delta_call& call, const hj_parallel* parallel, int64_t* counters);
Failure run_backward(const PlanView& view, const hj_delta_backward& call, const hj_parallel* parallel,
                     int64_t* counters);

}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_RUN_H_
