// Declarations of calls that do not compile: because the chip lacks them, or the emulator does. They take any
// arguments, so that a kernel that uses one is told why, and what to do instead.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_REFUSE_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_REFUSE_H_

#include "native/emulator/ascendc/common/macros.h"

// Three templates, as explicit template arguments may be types, values, or a type and values.
#define HAJAX_REFUSE(Result, Name, text)                                                    \
  template <typename... Types, typename... Arguments>                                       \
  Result Name(const Arguments&...) {                                                        \
    static_assert(hajax::ascendc::never<Types..., Arguments...>, text);                     \
    return Result();                                                                        \
  }                                                                                         \
  template <auto value, auto... values, typename... Arguments>                              \
  Result Name(const Arguments&...) {                                                        \
    static_assert(hajax::ascendc::never<hajax::ascendc::Value<value>, Arguments...>, text); \
    return Result();                                                                        \
  }                                                                                         \
  template <typename Type, auto value, auto... values, typename... Arguments>               \
  Result Name(const Arguments&...) {                                                        \
    static_assert(hajax::ascendc::never<Type, Arguments...>, text);                         \
    return Result();                                                                        \
  }

// Of what 310P lacks and 310B has.
#if __NPU_ARCH__ == 2002
#define HAJAX_LACKING "not on " HAJAX_CHIP
#else
#define HAJAX_LACKING "not emulated yet on " HAJAX_CHIP
#endif

#define HAJAX_MISSING(Result, Name, advice) \
  HAJAX_REFUSE(Result, Name, "AscendC::" #Name ": not on " HAJAX_CHIP ": " advice)
#define HAJAX_LACKED(Result, Name, advice) HAJAX_REFUSE(Result, Name, "AscendC::" #Name ": " HAJAX_LACKING ": " advice)
#define HAJAX_NOT_EMULATED(Result, Name, advice) \
  HAJAX_REFUSE(Result, Name, "AscendC::" #Name ": not emulated yet: " advice)

namespace hajax::ascendc {

template <auto>
struct Value {};

}  // namespace hajax::ascendc

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_REFUSE_H_
