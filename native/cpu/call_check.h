// Checks a call against its plan before anything runs.
#ifndef HAJAX_NATIVE_CPU_CALL_CHECK_H_
#define HAJAX_NATIVE_CPU_CALL_CHECK_H_

#include "native/cpu/failure.h"
#include "native/cpu/plan_view.h"

namespace hajax::cpu {

Failure check_call(const PlanView& view, const hj_delta_call& call);
Failure check_backward_call(const PlanView& view, const hj_delta_backward& call);

// A gradient's operands as those of the operator itself, which has no results then.
hj_delta_call operands_of(const hj_delta_backward& call);

}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_CALL_CHECK_H_
