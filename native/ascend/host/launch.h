// How a kernel is started: the one place that names it and knows the order of its arguments.
#ifndef HAJAX_NATIVE_ASCEND_HOST_LAUNCH_H_
#define HAJAX_NATIVE_ASCEND_HOST_LAUNCH_H_

#include <stdint.h>

#include "acl/acl.h"

namespace hajax::ascend::host {

// Device addresses, in the kernel's order.
struct KernelArguments {
  void *plan, *call, *query, *key, *value, *log_decay, *beta, *erase, *state_in, *output, *state_out, *workspace;
};

// Null: the one that walks any plan.
struct Kernel {
  aclrtFuncHandle function = nullptr;
};

// Queues it on `cores` cores of the stream's device; an ACL error code.
uint32_t launch_kernel(const Kernel& kernel, uint32_t cores, aclrtStream stream, const KernelArguments& arguments);

}  // namespace hajax::ascend::host

#endif  // HAJAX_NATIVE_ASCEND_HOST_LAUNCH_H_
