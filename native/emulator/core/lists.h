// The numbered lists of hajax/abi as C++ enumerations, and their names for messages.
#ifndef HAJAX_NATIVE_EMULATOR_CORE_LISTS_H_
#define HAJAX_NATIVE_EMULATOR_CORE_LISTS_H_

#include <stdint.h>

namespace hajax::emulator {

enum class Pipe : uint8_t {
#define PIPE(number, name, meaning) name = number,
#include "hajax/abi/pipes.def"
#undef PIPE
};
inline constexpr int kPipes = 6;

enum class Space : uint8_t {
#define SPACE(number, name, alignment, meaning) name = number,
#include "hajax/abi/spaces.def"
#undef SPACE
};
inline constexpr int kSpaces = 6;

enum class Path : uint8_t {
#define PATH(number, name, from, to, meaning) name = number,
#include "hajax/abi/paths.def"
#undef PATH
  none = 255,
};
inline constexpr int kPaths = 14;

enum class Check : uint8_t {
#define CHECK(number, name, hint) name = number,
#include "hajax/abi/checks.def"
#undef CHECK
};

enum class Instruction : uint8_t {
#define INSTRUCTION(number, name, pipe, family) name = number,
#include "hajax/abi/instructions.def"
#undef INSTRUCTION
};

enum class Count : uint8_t {
#define COUNT(number, name, unit, meaning) name = number,
#include "hajax/abi/counts.def"
#undef COUNT
};
inline constexpr int kCounts = 13;

const char* name_of(Pipe pipe);
const char* name_of(Space space);
const char* name_of(Path path);
const char* name_of(Check check);
const char* name_of(Instruction instruction);
const char* hint_of(Check check);
int alignment_of(Space space);          // bytes that an operand's address must be a multiple of
Pipe pipe_of(Instruction instruction);  // the pipe of instructions.def

}  // namespace hajax::emulator

#endif  // HAJAX_NATIVE_EMULATOR_CORE_LISTS_H_
