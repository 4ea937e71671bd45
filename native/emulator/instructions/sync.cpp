#include "native/emulator/instructions/sync.h"

#include "native/emulator/instructions/arguments.h"

namespace hajax::emulator {
namespace {

#define PIPE(number, name, meaning) static_assert(PIPE_##name == number, "pipe_t and pipes.def are the same numbers");
#include "hajax/abi/pipes.def"
#undef PIPE

Pipe pipe_named(Instruction instruction, const char* argument, pipe_t pipe, const void* where) {
  if (pipe < 0 || pipe >= PIPE_ALL) {
    core().fail(Check::flag_pipe,
                std::string(argument) + ": expected one of S, V, M, MTE1, MTE2, MTE3, got pipe_t " +
                    std::to_string(static_cast<int>(pipe)),
                new_issue(instruction, where));
  }
  return static_cast<Pipe>(pipe);
}

}  // namespace
}  // namespace hajax::emulator

using namespace hajax::emulator;  // NOLINT: the instructions themselves are global

void set_flag(pipe_t from, pipe_t to, int32_t event) {
  const void* where = HAJAX_WHERE();
  const Pipe source = pipe_named(Instruction::set_flag, "from", from, where);
  core().set_flag(source, pipe_named(Instruction::set_flag, "to", to, where), event, where);
}

void wait_flag(pipe_t from, pipe_t to, int32_t event) {
  const void* where = HAJAX_WHERE();
  const Pipe source = pipe_named(Instruction::wait_flag, "from", from, where);
  core().wait_flag(source, pipe_named(Instruction::wait_flag, "to", to, where), event, where);
}

void pipe_barrier(pipe_t pipe) {
  const void* where = HAJAX_WHERE();
  if (pipe == PIPE_ALL) return core().pipe_barrier(Pipe::S, true, where);
  if (pipe == PIPE_S) {
    core().fail(Check::unsupported, "pipe: expected another than S, which orders itself, got S",
                new_issue(Instruction::pipe_barrier, where));
  }
  core().pipe_barrier(pipe_named(Instruction::pipe_barrier, "pipe", pipe, where), false, where);
}

void dcci(void*, uint64_t) { core().charge(Instruction::dcci); }
void dcci(void*, uint64_t, uint64_t) { core().charge(Instruction::dcci); }

int64_t get_block_idx() { return core().index(); }
int64_t get_block_num() { return core().blocks(); }
