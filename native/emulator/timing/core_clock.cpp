#include "native/emulator/timing/core_clock.h"

#include <algorithm>

#include "native/emulator/timing/cost.h"

namespace hajax::emulator {

CoreClock::CoreClock(const hj_target& target, const CoreRecord& record, double start, std::vector<Slice>* slices)
    : target_(target),
      record_(record),
      start_(start),
      slices_(slices),
      flags_(static_cast<size_t>(kPipes) * kPipes * kEvents) {
  for (PipeState& pipe : pipes_) {
    pipe.free = start;
    pipe.done = start;
    pipe.starts.resize(static_cast<size_t>(std::max<int64_t>(1, target.queue_depth)), start);
  }
}

CoreClock::Stop CoreClock::run() {
  for (; next_ < record_.events.size(); ++next_) {
    const Event& now = event();
    PipeState& pipe = state(now.pipe);
    double issued = 0;
    if (now.what & Event::kIssued) {
      issued = issue(now);
      if (!(now.what & Event::kExecuted)) pipe.pending.push_back(issued);
    } else {
      issued = pipe.pending.front();
      pipe.pending.pop_front();
    }
    if (!(now.what & Event::kExecuted)) continue;
    time_ = std::max(pipe.free, issued);
    if (time_ > pipe.free) pipe.drained = true;
    pipe.starts[pipe.started % pipe.starts.size()] = time_;
    if (pipe.started++ == 0) pipe.timing.start = time_;
    switch (now.kind) {
      case Kind::set:
        set(now);
        break;
      case Kind::wait:
        wait(now);
        break;
      case Kind::barrier:
        barrier(now);
        break;
      case Kind::work:
        if (now.gm != Event::kNoGm) return Stop::gm;
        if (now.instruction == Instruction::sync_all) {
          for (const PipeState& one : pipes_) time_ = std::max(time_, one.done);
          return Stop::sync_all;
        }
        work(now, nullptr);
    }
  }
  return Stop::end;
}

// S spends the scalar work before this instruction and puts it into its pipe's queue. Returns when it is there.
double CoreClock::issue(const Event& event) {
  PipeState& scalar = state(Pipe::S);
  if (event.scalar_cycles > 0) {
    const double end = scalar.free + static_cast<double>(event.scalar_cycles);
    scalar_slice(Slice::What::scalar, scalar.free, end, Pipe::S);
    scalar.timing.busy += end - scalar.free;
    scalar.free = end;
  }
  PipeState& pipe = state(event.pipe);
  if (event.pipe != Pipe::S) {
    const size_t depth = pipe.starts.size();
    // The instruction `depth` before this one must have left the queue; starts still holds it in this one's place. (The
    // core refuses a program in which it has not run by now: S could never go on.)
    if (pipe.issued >= depth && pipe.started + depth > pipe.issued) {
      const double place = pipe.starts[pipe.issued % depth];
      if (place > scalar.free) {
        scalar_slice(Slice::What::queue_full, scalar.free, place, event.pipe);
        scalar.timing.held += place - scalar.free;
        scalar.free = place;
      }
    }
    const double cost = target_.issue_cycles + (event.kind == Kind::work ? target_.argument_cycles : 0);
    scalar.free += cost;
    scalar.timing.busy += cost;
  }
  ++pipe.issued;
  scalar.done = std::max(scalar.done, scalar.free);
  return scalar.free;
}

void CoreClock::gm_range(size_t* first, size_t* last) const {
  const auto begin = static_cast<size_t>(event().gm);
  const GmAccess& one = record_.gm[begin];
  size_t end = begin + 1;
  while (end < record_.gm.size() && record_.gm[end].number == one.number && record_.gm[end].pipe == one.pipe) ++end;
  *first = begin;
  *last = end;
}

void CoreClock::serve(const L2Traffic& traffic) {
  work(event(), &traffic);
  ++next_;
}

void CoreClock::release(double time) {
  PipeState& scalar = state(Pipe::S);
  scalar.timing.held += time - scalar.free;
  time_ = scalar.free;
  end_instruction(Slice::What::barrier, Pipe::S, time, time);
  ++next_;
}

void CoreClock::work(const Event& event, const L2Traffic* traffic) {
  PipeState& pipe = state(event.pipe);
  double cycles = 0;
  double latency = 0;
  // What S does itself was charged to it before: the core charges masks, registers and loads as it meets them.
  if (event.pipe != Pipe::S) {
    const int64_t bytes = traffic == nullptr ? static_cast<int64_t>(event.bytes) : traffic->hit + traffic->missed;
    const int64_t missed = traffic == nullptr ? 0 : traffic->missed;
    cycles = instruction_cycles(target_, event.instruction, event.units, bytes, event.path, missed);
    // Back to back, the cube's next product follows without a gap.
    if (event.pipe == Pipe::M && !pipe.drained) cycles -= target_.cost[static_cast<int>(event.instruction)].start;
    latency = instruction_latency(target_, event.instruction, event.path);
  }
  pipe.timing.busy += cycles;
  pipe.drained = false;
  const double end = time_ + cycles;
  end_instruction(Slice::What::work, event.pipe, end, end + latency);
}

// Holds nothing up: the flag rises when everything before it on the pipe is complete.
void CoreClock::set(const Event& event) {
  PipeState& pipe = state(event.pipe);
  const double end = time_ + target_.flag_cycles;
  const double up = std::max(end, pipe.done);
  pipe.timing.busy += target_.flag_cycles;
  const uint32_t slice = end_instruction(Slice::What::set, event.pipe, end, up);
  flag(event).up.push_back({up, slice});
}

void CoreClock::wait(const Event& event) {
  PipeState& pipe = state(event.pipe);
  Flag& one = flag(event);
  double up = time_;
  uint32_t partner = Slice::kNone;
  if (one.taken < one.up.size()) {
    up = one.up[one.taken].time;
    partner = one.up[one.taken].slice;
    if (++one.taken == one.up.size()) {
      one.up.clear();
      one.taken = 0;
    }
  }
  if (up > time_) pipe.drained = true;
  const double end = std::max(time_, up) + target_.flag_cycles;
  pipe.timing.held += end - time_;
  end_instruction(Slice::What::wait, event.pipe, end, end, partner);
}

void CoreClock::barrier(const Event& event) {
  PipeState& pipe = state(event.pipe);
  double done = pipe.done;
  if (event.event == 1) {
    for (const PipeState& one : pipes_) done = std::max(done, one.done);
  }
  if (done > time_) pipe.drained = true;
  const double end = std::max(time_, done) + target_.flag_cycles;
  pipe.timing.held += end - time_;
  end_instruction(Slice::What::barrier, event.pipe, end, end);
}

CoreClock::Flag& CoreClock::flag(const Event& event) {
  const int pair = static_cast<int>(event.from) * kPipes + static_cast<int>(event.to);
  return flags_.at(static_cast<size_t>(pair * kEvents + event.event));
}

uint32_t CoreClock::end_instruction(Slice::What what, Pipe pipe, double end, double complete, uint32_t partner) {
  PipeState& one = state(pipe);
  one.free = end;
  one.done = std::max(one.done, complete);
  ++one.timing.instructions;
  if (slices_ == nullptr) return Slice::kNone;
  Slice slice;
  slice.what = what;
  slice.pipe = pipe;
  slice.event = static_cast<uint32_t>(next_);
  slice.number = one.started;
  slice.partner = partner;
  slice.start = time_;
  slice.end = end;
  slice.complete = complete;
  slices_->push_back(slice);
  return static_cast<uint32_t>(slices_->size() - 1);
}

void CoreClock::scalar_slice(Slice::What what, double start, double end, Pipe full) {
  if (slices_ == nullptr) return;
  Slice slice;
  slice.what = what;
  slice.full = full;
  slice.event = static_cast<uint32_t>(next_);
  slice.start = start;
  slice.end = end;
  slice.complete = end;
  slices_->push_back(slice);
}

CoreTiming CoreClock::timing() const {
  CoreTiming timing;
  timing.start = start_;
  timing.end = start_;
  for (int p = 0; p < kPipes; ++p) {
    timing.pipes[p] = pipes_[p].timing;
    timing.pipes[p].end = pipes_[p].done;
    timing.end = std::max(timing.end, pipes_[p].done);
  }
  return timing;
}

}  // namespace hajax::emulator
