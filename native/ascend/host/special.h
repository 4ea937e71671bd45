// Kernels made of one plan's programs (hajax/plans/source.py), for plans whose decoding would bound the kernel that
// walks any plan.
#ifndef HAJAX_NATIVE_ASCEND_HOST_SPECIAL_H_
#define HAJAX_NATIVE_ASCEND_HOST_SPECIAL_H_

#include <string>

#include "native/ascend/host/launch.h"
#include "native/ascend/host/plan_view.h"

namespace hajax::ascend::host {

// The name of the kernel that is made of the plan's programs: it has a digest of them, so that a kernel of other
// programs is not found.
std::string special_name(const PlanView& view);

// The plan's kernel in the binary at this path. Refuses a binary without it; what it opened stays open with the device.
Failure open_special(const PlanView& view, const char* path, Kernel* kernel);

}  // namespace hajax::ascend::host

#endif  // HAJAX_NATIVE_ASCEND_HOST_SPECIAL_H_
