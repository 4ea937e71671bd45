// Flags, barriers, scalar work and the end of a kernel.
#include "native/emulator/checks/usage.h"
#include "native/emulator/core/barrier.h"
#include "native/emulator/core/core.h"
#include "native/emulator/core/queues.h"

namespace hajax::emulator {
namespace {

Issue flag_issue(Kind kind, Pipe from, Pipe to, int32_t event, const void* where) {
  Issue what{};
  what.kind = kind;
  what.instruction = kind == Kind::set ? Instruction::set_flag : Instruction::wait_flag;
  what.pipe = kind == Kind::set ? from : to;
  what.from = from;
  what.to = to;
  what.event = event;
  what.where = where;
  what.step = core().step_number;
  return what;
}

}  // namespace

void Core::run_sync(const Issue& what) {
  if (admit(what)) {
    execute(what);
  } else {
    defer(what, std::function<void()>());
  }
  run_ready();
}

void Core::set_flag(Pipe from, Pipe to, int32_t event, const void* where) {
  const Issue what = flag_issue(Kind::set, from, to, event, where);
  if (from == to) fail(Check::flag_pipe, std::string("SetFlag from ") + name_of(from) + " to itself", what);
  const int64_t ids = std::min<int64_t>(target_.flags_per_pair, Queues::kMostEvents);
  if (event < 0 || event >= ids) {
    fail(Check::limit, "SetFlag: event id: expected 0 to " + std::to_string(ids - 1) + ", got " + std::to_string(event),
         what);
  }
  const std::string wrong = queues_->note_set(what);
  if (!wrong.empty()) fail(Check::flag_doubled, wrong, what);
  run_sync(what);
}

void Core::wait_flag(Pipe from, Pipe to, int32_t event, const void* where) {
  const Issue what = flag_issue(Kind::wait, from, to, event, where);
  if (from == to) fail(Check::flag_pipe, std::string("WaitFlag from ") + name_of(from) + " to itself", what);
  const int64_t ids = std::min<int64_t>(target_.flags_per_pair, Queues::kMostEvents);
  if (event < 0 || event >= ids) {
    fail(Check::limit,
         "WaitFlag: event id: expected 0 to " + std::to_string(ids - 1) + ", got " + std::to_string(event), what);
  }
  const std::string wrong = queues_->note_wait(what);
  if (!wrong.empty()) fail(Check::flag_unpaired, wrong, what);
  run_sync(what);
}

void Core::pipe_barrier(Pipe pipe, bool all, const void* where) {
  Issue what{};
  what.instruction = Instruction::pipe_barrier;
  what.kind = Kind::barrier;
  what.pipe = all ? Pipe::S : pipe;
  what.event = all ? 1 : 0;
  what.where = where;
  what.step = step_number;
  if (all && queues_->any_waiting()) {
    fail(Check::deadlock, "PipeBarrier<PIPE_ALL> never ends; " + queues_->waiting_text(), what);
  }
  run_sync(what);
  if (all) queues_->drain_all();
}

void Core::sync_all(const void* where) {
  Issue what{};
  what.instruction = Instruction::sync_all;
  what.pipe = Pipe::S;
  what.where = where;
  what.step = step_number;
  if (queues_->any_waiting()) fail(Check::deadlock, "SyncAll never ends; " + queues_->waiting_text(), what);
  execute(what);
  queues_->drain_all();
  ++counts_.counts[static_cast<int>(Count::sync_alls)];
  const int ended = barrier_ == nullptr ? -1 : barrier_->wait(index_);
  if (ended >= 0) {
    fail(Check::deadlock, "SyncAll never ends: core " + std::to_string(ended) + " finished without it", what);
  }
  ++epoch_;
}

void Core::take_turn() {
  if (barrier_ != nullptr) barrier_->take_turn(index_);
}

void Core::scalar_access(Space space, const void* address, int64_t bytes, bool write, const void* where) {
  Issue what{};
  what.instruction = write ? Instruction::scalar_store : Instruction::scalar_load;
  what.pipe = Pipe::S;
  what.where = where;
  what.step = step_number;
  Access access;
  access.operand = write ? "SetValue" : "GetValue";
  access.space = space;
  access.write = write;
  access.address = address;
  access.bytes = bytes;
  access.alignment = static_cast<int32_t>(bytes);
  what.add(access);
  if (space == Space::GM) {
    what.path = write ? Path::s_to_gm : Path::gm_to_s;
    what.bytes = static_cast<uint64_t>(bytes);
  }
  admit(what);
  charge_cycles(space == Space::GM ? target_.scalar_gm_cycles : target_.scalar_load_cycles);
  execute(what);
}

void Core::charge(Instruction instruction) {
  ++counts_.instructions[static_cast<int>(instruction)];
  ++counts_.pipe_instructions[static_cast<int>(Pipe::S)];
  charge_cycles(target_.cost[static_cast<int>(instruction)].start);
}

void Core::charge_cycles(double cycles) {
  scalar_cycles_ += cycles;
  scalar_total_ += cycles;
}

void Core::finish() {
  if (queues_->any_waiting()) {
    fail(Check::deadlock, "the kernel ends while " + queues_->waiting_text(), *queues_->first_waiting());
  }
  Place set;
  std::string text;
  if (queues_->unpaired(&set, &text)) {
    Fault fault;
    fault.check = Check::flag_unpaired;
    fault.kernel = kernel_;
    fault.core = index_;
    fault.step = step;
    fault.at = set;
    fault.text = text;
    throw FaultError(fault);
  }
  constexpr Count kPeaks[] = {Count::peak_l1, Count::peak_l0a, Count::peak_l0b, Count::peak_l0c, Count::peak_ub};
  for (int s = 1; s < kSpaces; ++s) {
    counts_.counts[static_cast<int>(kPeaks[s - 1])] = static_cast<uint64_t>(usage_->peak(static_cast<Space>(s)));
  }
  counts_.counts[static_cast<int>(Count::scalar_cycles)] = static_cast<uint64_t>(scalar_total_);
}

}  // namespace hajax::emulator
