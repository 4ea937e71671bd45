#include "native/emulator/core/lists.h"

namespace hajax::emulator {

const char* name_of(Pipe pipe) {
  switch (pipe) {
#define PIPE(number, name, meaning) \
  case Pipe::name:                  \
    return #name;
#include "hajax/abi/pipes.def"
#undef PIPE
  }
  return "?";
}

const char* name_of(Space space) {
  switch (space) {
#define SPACE(number, name, alignment, meaning) \
  case Space::name:                             \
    return #name;
#include "hajax/abi/spaces.def"
#undef SPACE
  }
  return "?";
}

const char* name_of(Path path) {
  switch (path) {
#define PATH(number, name, from, to, meaning) \
  case Path::name:                            \
    return #name;
#include "hajax/abi/paths.def"
#undef PATH
    case Path::none:
      return "none";
  }
  return "?";
}

const char* name_of(Check check) {
  switch (check) {
#define CHECK(number, name, hint) \
  case Check::name:               \
    return #name;
#include "hajax/abi/checks.def"
#undef CHECK
  }
  return "?";
}

const char* hint_of(Check check) {
  switch (check) {
#define CHECK(number, name, hint) \
  case Check::name:               \
    return hint;
#include "hajax/abi/checks.def"
#undef CHECK
  }
  return "";
}

const char* name_of(Instruction instruction) {
  switch (instruction) {
#define INSTRUCTION(number, name, pipe, family) \
  case Instruction::name:                       \
    return #name;
#include "hajax/abi/instructions.def"
#undef INSTRUCTION
  }
  return "?";
}

int alignment_of(Space space) {
  switch (space) {
#define SPACE(number, name, alignment, meaning) \
  case Space::name:                             \
    return alignment;
#include "hajax/abi/spaces.def"
#undef SPACE
  }
  return 1;
}

Pipe pipe_of(Instruction instruction) {
  switch (instruction) {
#define INSTRUCTION(number, name, pipe, family) \
  case Instruction::name:                       \
    return Pipe::pipe;
#include "hajax/abi/instructions.def"
#undef INSTRUCTION
  }
  return Pipe::S;
}

}  // namespace hajax::emulator
