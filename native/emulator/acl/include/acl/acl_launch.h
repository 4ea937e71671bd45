// Kernels linked into the same program: ACLRT_LAUNCH_KERNEL(name)(blocks, stream, arguments...) launches the kernel
// `name`. On a device, CANN's build generates aclrtlaunch_<name>.h with this macro; here `hajax sim header kernel.cpp`
// writes that file, so that the host source stays the same.
#ifndef HAJAX_ACL_ACL_LAUNCH_H_
#define HAJAX_ACL_ACL_LAUNCH_H_

#include "acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif
// Queues a launch of the function at this address; words are its arguments.
ACL_FUNC_VISIBILITY aclError hajax_sim_launch_words(uint64_t function, const char* kernel, uint32_t blocks,
                                                    aclrtStream stream, const uint64_t* words, size_t count);
#ifdef __cplusplus
}

#include <type_traits>

namespace hajax::emulator {

struct KernelLauncher {
  uint64_t function;
  const char* name;

  template <typename... Arguments>
  uint32_t operator()(uint32_t blocks, aclrtStream stream, Arguments... arguments) const {
    const uint64_t words[] = {word(arguments)..., 0};
    return static_cast<uint32_t>(hajax_sim_launch_words(function, name, blocks, stream, words, sizeof...(arguments)));
  }

  template <typename T>
  static uint64_t word(T argument) {
    static_assert(std::is_pointer_v<T> || std::is_integral_v<T> || std::is_enum_v<T> || std::is_null_pointer_v<T>,
                  "a kernel's arguments are device addresses and integers; other values go through device memory");
    if constexpr (std::is_pointer_v<T>) {
      return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(argument));
    } else if constexpr (std::is_null_pointer_v<T>) {
      return 0;
    } else {
      return static_cast<uint64_t>(argument);
    }
  }
};

}  // namespace hajax::emulator

// The assembler name reaches an extern "C" kernel from any scope, whatever the types of its parameters.
#ifndef ACLRT_LAUNCH_KERNEL
#define ACLRT_LAUNCH_KERNEL(kernel)                                                               \
  ([] {                                                                                           \
    extern void hajax_sim_kernel_##kernel() __asm__(#kernel);                                     \
    return ::hajax::emulator::KernelLauncher{                                                     \
        static_cast<uint64_t>(reinterpret_cast<uintptr_t>(&hajax_sim_kernel_##kernel)), #kernel}; \
  }())
#endif
#endif  // __cplusplus

#endif
