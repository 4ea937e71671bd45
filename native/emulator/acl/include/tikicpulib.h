// The helpers of CANN's CPU debugging that host sources use under ASCENDC_CPU_DEBUG: memory that the program fills
// itself, and a call that runs a kernel at once. A kernel that fails a check ends the program with its message.
#ifndef HAJAX_ACL_TIKICPULIB_H_
#define HAJAX_ACL_TIKICPULIB_H_

#include "acl/acl.h"

extern "C" {
ACL_FUNC_VISIBILITY void* hajax_sim_gm_alloc(size_t size);
ACL_FUNC_VISIBILITY void hajax_sim_gm_free(void* pointer);
ACL_FUNC_VISIBILITY void hajax_sim_run_or_exit(uint64_t function, const char* kernel, uint32_t blocks,
                                               const uint64_t* words, size_t count);
}

enum class KernelMode { MIX_MODE, AIC_MODE, AIV_MODE };

namespace AscendC {
inline void* GmAlloc(size_t size) { return hajax_sim_gm_alloc(size); }
inline void GmFree(void* pointer) { hajax_sim_gm_free(pointer); }
inline void SetKernelMode(KernelMode) {}  // 310P and 310B have one kind of core
}  // namespace AscendC

namespace hajax::emulator {
template <typename... Parameters, typename... Arguments>
void run_kernel_or_exit(void (*kernel)(Parameters...), const char* name, uint32_t blocks, Arguments... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments), "the kernel takes another number of arguments");
  const uint64_t words[] = {KernelLauncher::word(static_cast<Parameters>(arguments))..., 0};
  hajax_sim_run_or_exit(static_cast<uint64_t>(reinterpret_cast<uintptr_t>(kernel)), name, blocks, words,
                        sizeof...(arguments));
}
}  // namespace hajax::emulator

#define ICPU_RUN_KF(kernel, blocks, ...) ::hajax::emulator::run_kernel_or_exit(kernel, #kernel, blocks, __VA_ARGS__)

#endif
