#include "native/emulator/core/core.h"

#include <string.h>

#include <algorithm>

#include "native/emulator/checks/bounds.h"
#include "native/emulator/checks/runs.h"
#include "native/emulator/checks/shadow.h"
#include "native/emulator/checks/usage.h"
#include "native/emulator/core/queues.h"

namespace hajax::emulator {
namespace {

constexpr int64_t kPage = 4096;
constexpr size_t kMostEvents = size_t{1} << 25;  // of one core in one launch: 2 GiB of records
constexpr int kUnwrittenByte = 0xFF;  // NaN in every float type: what never-written memory holds when nobody checks

int64_t round_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

}  // namespace

Core::Core(const hj_target& target, Gm& gm, const Options& options, const std::string& kernel, int index, int blocks,
           Barrier* barrier, CoreCounts& counts, CoreRecord& record)
    : target_(target),
      gm_(gm),
      options_(options),
      kernel_(kernel),
      index_(index),
      blocks_(blocks),
      barrier_(barrier),
      counts_(counts),
      record_(record) {
  const int64_t sizes[kSpaces] = {
      0, target.l1_bytes, target.l0a_bytes, target.l0b_bytes, target.l0c_bytes, target.ub_bytes};
  int64_t total = kPage;
  for (const int64_t size : sizes) total += round_up(size, kPage) + kPage;
  memory_ = std::make_unique<uint8_t[]>(static_cast<size_t>(total));
  const int fill = options.counts_only ? 0 : kUnwrittenByte;
  memset(memory_.get(), fill, static_cast<size_t>(total));
  auto at = round_up(static_cast<int64_t>(reinterpret_cast<intptr_t>(memory_.get())), kPage);
  for (int s = 1; s < kSpaces; ++s) {
    base_[s] = reinterpret_cast<uint8_t*>(static_cast<intptr_t>(at));
    size_[s] = sizes[s];
    at += round_up(sizes[s], kPage) + kPage;
  }
  size_[static_cast<int>(Space::UB)] -= target.ub_reserved_bytes;
  queues_ = std::make_unique<Queues>(target.queue_depth);
  usage_ = std::make_unique<Usage>(sizes);
  if (options.check_races || options.check_written) {
    shadow_ = std::make_unique<Shadow>(sizes, options.check_races, options.check_written);
  }
}

Core::~Core() = default;

int64_t Core::offset(Space space, const void* pointer) const {
  if (space == Space::GM) return gm_.offset(pointer);
  return reinterpret_cast<intptr_t>(pointer) - reinterpret_cast<intptr_t>(base(space));
}

bool Core::locate(const void* pointer, Space* space) const {
  for (int s = 1; s < kSpaces; ++s) {
    const int64_t at = offset(static_cast<Space>(s), pointer);
    const int64_t size = s == static_cast<int>(Space::UB) ? target_.ub_bytes : size_[s];
    if (at < 0 || at >= size) continue;
    *space = static_cast<Space>(s);
    return true;
  }
  if (!gm_.owns(pointer)) return false;
  *space = Space::GM;
  return true;
}

void Core::check_access(const Issue& what, const Access& access) {
  const int64_t start = offset(access.space, access.address);
  Space holder = access.space;
  const int64_t end = access.space == Space::UB ? target_.ub_bytes : size(access.space);
  const bool outside = access.space == Space::GM ? !gm_.owns(access.address) : start < 0 || start >= end;
  if (outside && locate(access.address, &holder) && holder != access.space) {
    fail(Check::out_of_bounds,
         std::string(access.operand) + ": expected an operand in " + name_of(access.space) + ", got one at offset " +
             std::to_string(offset(holder, access.address)) + " of " + name_of(holder),
         what);
  }
  std::string wrong = check_alignment(access, start);
  if (!wrong.empty()) fail(Check::misaligned, wrong, what);
  if (access.space == Space::GM) {
    wrong = check_gm_bounds(what, access, start, gm_, &gm_block_);
  } else {
    const bool reserve = access.space == Space::UB && reserve_open_;
    wrong = check_bounds(what, access, start, reserve ? target_.ub_bytes : size(access.space));
    if (!wrong.empty() && access.space == Space::UB && check_bounds(what, access, start, target_.ub_bytes).empty()) {
      wrong += " (the top " + std::to_string(target_.ub_reserved_bytes) + " bytes of UB are the API's own)";
    }
  }
  if (wrong.empty()) wrong = check_buffer(what, access, start, buffers_[static_cast<int>(access.space)]);
  if (!wrong.empty()) fail(Check::out_of_bounds, wrong, what);
}

bool Core::admit(const Issue& what) {
  for (int i = 0; i < what.accesses; ++i) check_access(what, what.access[i]);
  if (what.check_overlap) {
    const std::string wrong = check_overlap(what);
    if (!wrong.empty()) fail(Check::partial_overlap, wrong, what);
  }
  return queues_->idle(what.pipe) && !(what.kind == Kind::wait && !queues_->flag_is_up(what));
}

void Core::defer(const Issue& what, std::function<void()> compute) {
  if (what.pipe == Pipe::S)
    fail(Check::deadlock, "S waits for a flag that nothing before it sets; " + queues_->waiting_text(), what);
  if (queues_->full(what.pipe)) {
    fail(Check::deadlock,
         std::string("the queue of ") + name_of(what.pipe) + " is full, so S can issue nothing more; " +
             queues_->waiting_text(),
         what);
  }
  queues_->push(what, std::move(compute));
  record(what, Event::kIssued);
}

void Core::execute(const Issue& what) {
  queues_->start(what, queues_->clock(Pipe::S));
  follow(what);
  count(what);
  record(what, Event::kIssued | Event::kExecuted);
}

void Core::run_ready() {
  Queues::Pending next;
  while (queues_->any_waiting() && queues_->pop_ready(&next)) {
    queues_->start(next.what, next.issued);
    follow(next.what);
    count(next.what);
    record(next.what, Event::kExecuted);
    if (next.compute) next.compute();
  }
}

bool Core::insert_barrier(const Issue& what, Pipe other) {
  if (!options_.auto_barriers || what.pipe != Pipe::V || other != Pipe::V) return false;
  Issue barrier;
  barrier.instruction = Instruction::pipe_barrier;
  barrier.pipe = Pipe::V;
  barrier.kind = Kind::barrier;
  barrier.where = what.where;
  barrier.step = what.step;
  // It stands before the instruction that has just started, which therefore is not among those that it completes.
  queues_->barrier_before(Pipe::V);
  count(barrier);
  ++counts_.counts[static_cast<int>(Count::auto_barriers)];
  record(barrier, Event::kIssued | Event::kExecuted);
  return true;
}

void Core::follow(const Issue& what) {
  for (const bool writes : {false, true}) {  // an instruction reads before it writes
    for (int i = 0; i < what.accesses; ++i) {
      const Access& access = what.access[i];
      if (access.write != writes) continue;
      const int64_t start = offset(access.space, access.address);
      if (access.space == Space::GM) {
        record_gm(what, access);
        if ((!writes || access.atomic) && options_.check_written) {
          for_each_run(what, access, start, [&](int64_t at, int64_t bytes) {
            const int64_t missing = gm_.first_unwritten(at, bytes);
            if (missing < 0) return;
            fail(Check::uninitialized,
                 std::string(access.operand) + " reads GM byte " + std::to_string(missing) + ", byte " +
                     std::to_string(missing - gm_.find(missing).start) + " of its allocation, that nothing has written",
                 what);
          });
        }
        if (writes) {
          for_each_run(what, access, start, [&](int64_t at, int64_t bytes) { gm_.mark_written(at, bytes); });
        }
      } else if (writes) {
        for_each_run(what, access, start, [&](int64_t at, int64_t bytes) { usage_->touch(access.space, at, bytes); });
      }
      if (!shadow_) continue;
      const Shadow::Actor actor{what.pipe, queues_->number(what.pipe), &queues_->clock(what.pipe),
                                access.ordered_in_pipe};
      for_each_run(what, access, start, [&](int64_t at, int64_t bytes) {
        Shadow::Conflict conflict = shadow_->access(access.space, at, bytes, writes, actor);
        if (conflict.verdict == Shadow::Verdict::race && insert_barrier(what, conflict.pipe)) {
          conflict = shadow_->access(access.space, at, bytes, writes, actor);
        }
        if (conflict.verdict == Shadow::Verdict::fine) return;
        const std::string byte = std::string(name_of(access.space)) + " byte " + std::to_string(conflict.offset);
        const std::string does = std::string(access.operand) + (writes ? " writes " : " reads ") + byte;
        if (conflict.verdict == Shadow::Verdict::unwritten) {
          fail(Check::uninitialized, does + " that nothing has written", what);
        }
        if (conflict.verdict == Shadow::Verdict::freed)
          fail(Check::freed_memory, does + " of a tensor that was freed", what);
        const bool own = conflict.pipe == what.pipe;
        Fault fault;
        fault.check = own ? Check::pipe_race : Check::race;
        fault.kernel = kernel_;
        fault.core = index_;
        fault.step = step;
        fault.at = queues_->place(what.pipe, actor.number);
        fault.other = queues_->place(conflict.pipe, conflict.number);
        fault.text = does + ", which " + name_of(conflict.pipe) +
                     (conflict.other_wrote ? " may still be writing" : " may still be reading");
        throw FaultError(fault);
      });
    }
  }
}

void Core::count(const Issue& what) {
  ++counts_.instructions[static_cast<int>(what.instruction)];
  ++counts_.pipe_instructions[static_cast<int>(what.pipe)];
  if (what.path != Path::none) {
    counts_.path_bytes[static_cast<int>(what.path)] += what.bytes;
    ++counts_.path_transfers[static_cast<int>(what.path)];
  }
  counts_.counts[static_cast<int>(Count::macs)] += what.macs;
  counts_.counts[static_cast<int>(Count::useful_macs)] += what.useful_macs;
  counts_.counts[static_cast<int>(Count::vector_lanes)] += what.lanes_used;
  if (what.transform) counts_.counts[static_cast<int>(Count::transform_bytes)] += what.bytes;
}

void Core::record(const Issue& what, uint8_t which) {
  if (record_.events.size() >= kMostEvents) {
    fail(Check::deadlock,
         "the kernel has issued " + std::to_string(kMostEvents) +
             " instructions on one core and goes on: an endless loop?",
         what);
  }
  Event event{};
  event.instruction = what.instruction;
  event.pipe = what.pipe;
  event.kind = what.kind;
  event.what = which;
  event.from = what.from;
  event.to = what.to;
  event.event = static_cast<uint8_t>(what.event);
  event.path = what.path;
  event.units = what.units;
  event.bytes = static_cast<uint32_t>(what.bytes);
  event.gm = Event::kNoGm;
  event.step = what.step;
  event.where = what.where;
  if (which & Event::kIssued) {
    event.scalar_cycles = static_cast<float>(scalar_cycles_);
    scalar_cycles_ = 0;
  }
  if (which & Event::kExecuted) {
    int touches = 0;
    for (int i = 0; i < what.accesses; ++i) touches += what.access[i].space == Space::GM;
    if (touches != 0) event.gm = static_cast<uint32_t>(record_.gm.size()) - static_cast<uint32_t>(touches);
  }
  record_.events.push_back(event);
}

void Core::record_gm(const Issue& what, const Access& access) {
  GmAccess one{};
  one.offset = gm_.offset(access.address);
  one.bytes = access.bytes;
  one.stride = access.blocks > 1 ? access.block_stride : access.bytes;
  one.runs = access.blocks;  // GM operands have no repeats
  one.write = access.write;
  one.atomic = access.atomic;
  one.epoch = epoch_;
  one.number = queues_->number(what.pipe);
  one.pipe = what.pipe;
  one.instruction = what.instruction;
  one.step = what.step;
  one.where = what.where;
  record_.gm.push_back(one);
}

void Core::saturated(uint64_t values, const Issue& what) {
  if (values == 0) return;
  counts_.counts[static_cast<int>(Count::saturated)] += values;
  if (options_.fatal_saturation) {
    fail(Check::saturated, std::to_string(values) + " results were clamped to the range of their type", what);
  }
}

void Core::buffer_defined(Space space, int64_t offset, int64_t bytes) {
  buffers_[static_cast<int>(space)][offset] = bytes;
}

void Core::buffers_cleared() {
  for (auto& buffers : buffers_) buffers.clear();
}

void Core::tensor_allocated(Space space, int64_t offset, int64_t bytes) {
  // What still waits in a queue may belong to the tensor that was here before.
  if (shadow_ && !queues_->any_waiting()) shadow_->undefine(space, offset, bytes);
}

void Core::tensor_freed(Space space, int64_t offset, int64_t bytes) {
  usage_->free(space, offset, bytes);
  if (shadow_ && !queues_->any_waiting()) shadow_->free(space, offset, bytes);
}

void Core::fail(Check check, std::string text, const void* where) {
  Fault fault;
  fault.check = check;
  fault.kernel = kernel_;
  fault.core = index_;
  fault.step = step;
  fault.at.where = where;  // a call of the API, before any instruction of it
  fault.text = std::move(text);
  throw FaultError(fault);
}

void Core::fail(Check check, std::string text, const Issue& what) {
  Fault fault;
  fault.check = check;
  fault.kernel = kernel_;
  fault.core = index_;
  fault.step = step;
  // An instruction that has started is the last of its pipe; one that is refused earlier would be the next.
  const Place last = queues_->place(what.pipe, queues_->number(what.pipe));
  const bool started = last.known && last.where == what.where && last.instruction == what.instruction;
  fault.at = {what.instruction, what.pipe, started ? last.number : queues_->next_number(what.pipe),
              what.where,       what.step, true};
  fault.text = std::move(text);
  throw FaultError(fault);
}

}  // namespace hajax::emulator
