// What every header of the Ascend C API needs first: the chip, the device types, and how errors leave a kernel.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_MACROS_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_MACROS_H_

#include <stddef.h>
#include <stdint.h>

#include "native/emulator/core/services.h"
#include "native/emulator/instructions/types.h"

#if !defined(__NPU_ARCH__)
#error "compile kernels with -D__NPU_ARCH__=2002 (310P) or 3002 (310B)"
#elif __NPU_ARCH__ == 2002
#define HAJAX_CHIP "dav-m200 (310P)"
#elif __NPU_ARCH__ == 3002
#define HAJAX_CHIP "dav-m300 (310B)"
#else
#error "__NPU_ARCH__: expected 2002 (310P) or 3002 (310B)"
#endif

// API functions are inlined at every optimisation level: messages then name the kernel's own source line.
#define HAJAX_API __attribute__((always_inline)) inline

#define GM_ADDR __gm__ uint8_t*
#define UB_ADDR __ubuf__ uint8_t*

// Cube and vector unit sit in one core.
#define ASCEND_IS_AIC constexpr(false)
#define ASCEND_IS_AIV constexpr(false)
#define ASCEND_IS_NOT_AIC constexpr(true)
#define ASCEND_IS_NOT_AIV constexpr(true)
#define ASCEND_IS_AICORE constexpr(true)

#ifndef __BLOCK_LOCAL__
#define __BLOCK_LOCAL__ thread_local
#endif

#define KERNEL_TYPE_AICORE 1
#define KERNEL_TASK_TYPE_DEFAULT(type) static_assert((type) == KERNEL_TYPE_AICORE, "kernel type: AICORE")
#define KERNEL_TASK_TYPE(key, type) KERNEL_TASK_TYPE_DEFAULT(type)

namespace hajax::ascendc {

// False, but only once a template is used: for static_assert in declarations that must not be used.
template <typename...>
inline constexpr bool never = false;

using hajax::emulator::Check;
using hajax::emulator::kernel_fault;
using hajax::emulator::Space;

// Texts of messages are made outside of the kernel's own code; the call that reports them is inside, for its line.
#define HAJAX_COLD __attribute__((noinline, cold))

// Text of a message. Kernel code gets no standard library from these headers, hence no std::string.
class Text {
 public:
  HAJAX_COLD Text& operator<<(const char* text) {
    while (*text != '\0' && used_ + 1 < kRoom) data_[used_++] = *text++;
    data_[used_] = '\0';
    return *this;
  }
  HAJAX_COLD Text& operator<<(int64_t value) {
    if (value < 0) *this << "-";
    uint64_t rest = value < 0 ? ~static_cast<uint64_t>(value) + 1 : static_cast<uint64_t>(value);
    char digits[24];
    int at = 23;
    digits[at] = '\0';
    do {
      digits[--at] = static_cast<char>('0' + rest % 10);
      rest /= 10;
    } while (rest != 0);
    return *this << digits + at;
  }
  operator const char*() const { return data_; }  // NOLINT: handed to kernel_fault

 private:
  static constexpr int kRoom = 512;
  char data_[kRoom] = {};
  int used_ = 0;
};

HAJAX_COLD inline Text range_text(const char* api, const char* what, int64_t value, int64_t least, int64_t most) {
  return Text() << api << ": " << what << ": expected " << least << " to " << most << ", got " << value;
}
HAJAX_COLD inline Text multiple_text(const char* api, const char* what, int64_t value, int64_t unit,
                                     const char* remedy) {
  return Text() << api << ": " << what << ": expected a multiple of " << unit << ", got " << value
                << "; the device would round it down. " << remedy;
}

// `what` of `api` must lie in [least, most].
HAJAX_API void expect_range(const char* api, const char* what, int64_t value, int64_t least, int64_t most) {
  if (value < least || value > most) kernel_fault(Check::limit, range_text(api, what, value, least, most));
}

HAJAX_API void expect_multiple(const char* api, const char* what, int64_t value, int64_t unit, const char* remedy) {
  if (value % unit != 0) kernel_fault(Check::limit, multiple_text(api, what, value, unit, remedy));
}

}  // namespace hajax::ascendc

namespace AscendC {

enum LogLevel { KERNEL_DEBUG = 0, KERNEL_INFO = 1, KERNEL_WARN = 2, KERNEL_ERROR = 3 };

extern "C" int printf(const char* format, ...);

template <typename... Arguments>
void PRINTF(const char* format, Arguments... arguments) {
  AscendC::printf(format, arguments...);
}

}  // namespace AscendC

// Prints only what is at least a warning, as the API's own log does by default.
#define KERNEL_LOG(level, ...)                      \
  do {                                              \
    if ((AscendC::level) >= AscendC::KERNEL_WARN) { \
      AscendC::printf(__VA_ARGS__);                 \
      AscendC::printf("\n");                        \
    }                                               \
  } while (false)

#define HAJAX_LINE_TEXT(line) #line
#define HAJAX_LINE(line) HAJAX_LINE_TEXT(line)

// Assertions end the emulated kernel; on a device they compile to nothing. What follows the condition (a format and its
// arguments, or what to log) is only for the reader of the source.
#define HAJAX_FIRST(first, ...) first
#define HAJAX_ASSERT(condition, text)                                                                     \
  do {                                                                                                    \
    if (!(condition)) {                                                                                   \
      hajax::emulator::kernel_fault(hajax::emulator::Check::launch,                                       \
                                    "assertion failed: " text ", at " __FILE__ ":" HAJAX_LINE(__LINE__)); \
    }                                                                                                     \
  } while (false)
#define ASCENDC_ASSERT(...) HAJAX_ASSERT(HAJAX_FIRST(__VA_ARGS__, 0), #__VA_ARGS__)
#define ascendc_assert(...) HAJAX_ASSERT(HAJAX_FIRST(__VA_ARGS__, 0), #__VA_ARGS__)
#ifndef ASSERT
#define ASSERT(...) HAJAX_ASSERT(HAJAX_FIRST(__VA_ARGS__, 0), #__VA_ARGS__)
#endif
#undef assert
#define assert(...) HAJAX_ASSERT(HAJAX_FIRST(__VA_ARGS__, 0), #__VA_ARGS__)

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_MACROS_H_
