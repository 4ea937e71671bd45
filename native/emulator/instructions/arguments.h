// Arguments of instructions against the widths of their fields. Prototypes take wide integers, so that a value that
// does not fit is seen, where the chip would cut it off without a word.
#ifndef HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_ARGUMENTS_H_
#define HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_ARGUMENTS_H_

#include <stdint.h>

#include <string>

#include "native/emulator/core/core.h"
#include "native/emulator/core/services.h"

namespace hajax::emulator {

inline Issue new_issue(Instruction instruction, const void* where) {
  Issue what{};
  what.instruction = instruction;
  what.pipe = pipe_of(instruction);
  what.where = where;
  what.step = core().step_number;
  return what;
}

inline void require_range(const Issue& what, const char* argument, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return;
  core().fail(Check::limit,
              std::string(argument) + ": expected " + std::to_string(low) + " to " + std::to_string(high) + ", got " +
                  std::to_string(value),
              what);
}

}  // namespace hajax::emulator

#endif  // HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_ARGUMENTS_H_
