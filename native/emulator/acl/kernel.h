// Kernels as functions: the shared libraries they come from, and calling one without letting its mistakes end the
// process.
#ifndef HAJAX_NATIVE_EMULATOR_ACL_KERNEL_H_
#define HAJAX_NATIVE_EMULATOR_ACL_KERNEL_H_

#include <stdint.h>

#include <functional>
#include <string>
#include <vector>

namespace hajax::emulator {

// The handle of a loaded library; throws std::runtime_error with the loader's reason.
void* open_library(const std::string& path);
void close_library(void* library);
// Address of a function, 0 when the library has none of this name.
uint64_t find_function(void* library, const std::string& name);

// The kernel as launch() takes it: calls the function with the words as its arguments. A crash of the kernel's own code
// (a wild pointer, a division by zero, abort) becomes a FaultError of the running core.
std::function<void()> kernel_body(uint64_t function, std::vector<uint64_t> words);

// While one lives, crashes of kernel code are caught. Any number may live at once.
class CrashGuard {
 public:
  CrashGuard();
  ~CrashGuard();
  CrashGuard(const CrashGuard&) = delete;
  CrashGuard& operator=(const CrashGuard&) = delete;
};

}  // namespace hajax::emulator

#endif  // HAJAX_NATIVE_EMULATOR_ACL_KERNEL_H_
