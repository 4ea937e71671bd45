#include "native/ascend/host/launch.h"

#include "aclrtlaunch_hajax_delta_rule.h"  // made by the build

namespace hajax::ascend::host {

uint32_t launch_kernel(const Kernel& kernel, uint32_t cores, aclrtStream stream, const KernelArguments& a) {
  if (kernel.function != nullptr) {
    return static_cast<uint32_t>(aclrtLaunchKernel(kernel.function, cores, &a, sizeof a, stream));
  }
  return ACLRT_LAUNCH_KERNEL(hajax_delta_rule)(cores, stream, a.plan, a.call, a.query, a.key, a.value, a.log_decay,
                                               a.beta, a.erase, a.state_in, a.output, a.state_out, a.workspace);
}

}  // namespace hajax::ascend::host
