// What a plan expects of a call.
#ifndef HAJAX_NATIVE_ASCEND_HOST_CALL_CHECK_H_
#define HAJAX_NATIVE_ASCEND_HOST_CALL_CHECK_H_

#include "hajax/abi/hajax.h"
#include "native/ascend/host/plan_view.h"

namespace hajax::ascend::host {

// Sizes, buffers and bounds, and that the plan's items reach every chunk of every sequence, as those with a range of
// chunks may be of a plan for fewer tokens; gates are looked at when they are copied. `on_host` false: of the buffers
// only the bounds lie in host memory and in the call.
Failure check_call(const PlanView& view, const hj_delta_call& call, bool on_host = true);

}  // namespace hajax::ascend::host

#endif  // HAJAX_NATIVE_ASCEND_HOST_CALL_CHECK_H_
