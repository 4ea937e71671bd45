// Runs a plan on the device of the thread's current ACL context, with arrays in host memory.
#ifndef HAJAX_NATIVE_ASCEND_HOST_EXECUTE_H_
#define HAJAX_NATIVE_ASCEND_HOST_EXECUTE_H_

#include "hajax/abi/hajax.h"
#include "native/ascend/host/launch.h"
#include "native/ascend/host/plan_view.h"

namespace hajax::ascend::host {

// What was started, for the counters.
struct Done {
  int64_t launches = 0;
  int64_t cores = 0;  // most of a launch
  int64_t items = 0;
  int64_t chunks = 0;  // over all items
};

// A refused call has touched nothing. An ACL call that fails gives `internal` with ACL's text.
Failure execute(const PlanView& view, const hj_delta_call& call, const Kernel& kernel, Done* done);

}  // namespace hajax::ascend::host

#endif  // HAJAX_NATIVE_ASCEND_HOST_EXECUTE_H_
