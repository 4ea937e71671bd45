// What the host looks at of queries, keys, values and states: the kernel would hand on a number that is not finite.
#ifndef HAJAX_NATIVE_ASCEND_HOST_INPUTS_H_
#define HAJAX_NATIVE_ASCEND_HOST_INPUTS_H_

#include "hajax/abi/hajax.h"
#include "native/ascend/host/gates.h"
#include "native/ascend/host/plan_view.h"

namespace hajax::ascend::host {

// Refuses infinities and NaN, which is also what larger numbers became that were rounded to fp16; only in tokens of a
// sequence.
Failure check_inputs(const PlanView& view, const hj_delta_call& call, const Sequences& sequences);

}  // namespace hajax::ascend::host

#endif  // HAJAX_NATIVE_ASCEND_HOST_INPUTS_H_
