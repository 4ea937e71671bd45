// Whether a program's steps stay within the chip's memories, the call's arrays and the limits of its instructions, and
// whether every flag that is set is waited for.
#ifndef HAJAX_NATIVE_ASCEND_HOST_STEP_CHECK_H_
#define HAJAX_NATIVE_ASCEND_HOST_STEP_CHECK_H_

#include <string>

#include "native/ascend/host/plan_view.h"

namespace hajax::ascend::host {

// Of a program whose sizes have been checked. `name` begins the messages: "programs[0].".
Failure check_steps(const PlanView& view, const Chip& chip, const hj_npu_program& program, const std::string& name);

// How many chunks before an item's first one its steps may read of the workspace.
int64_t chunks_back(const PlanView& view, const hj_npu_program& program);

// The flags alone: each step's are of its pipe, and pair up in every order of sections that can run.
Failure check_flags(const PlanView& view, const hj_npu_program& program, const std::string& name);

}  // namespace hajax::ascend::host

#endif  // HAJAX_NATIVE_ASCEND_HOST_STEP_CHECK_H_
