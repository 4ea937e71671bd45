#include "native/emulator/core/queues.h"

#include <algorithm>
#include <utility>

namespace hajax::emulator {
namespace {

std::string pair_text(const Issue& what) {
  return std::string(name_of(what.from)) + " to " + name_of(what.to) + ", event " + std::to_string(what.event);
}

}  // namespace

void join(Clock& clock, const Clock& other) {
  for (size_t p = 0; p < kPipes; ++p) clock[p] = std::max(clock[p], other[p]);
}

std::string Queues::note_set(const Issue& set) {
  Flag& one = flag(set);
  if (one.balance >= 1) {
    const std::string before = one.set.known ? source_line(one.set.where) : "";
    return "the flag " + pair_text(set) + " is set a second time with no wait between" +
           (before.empty() ? "" : " (first set at " + before + ")");
  }
  ++one.balance;
  one.set = {set.instruction, set.pipe, next_number(set.pipe), set.where, set.step, true};
  return "";
}

std::string Queues::note_wait(const Issue& wait) {
  Flag& one = flag(wait);
  if (one.balance <= -1) {
    const std::string before = one.wait.known ? source_line(one.wait.where) : "";
    return "the flag " + pair_text(wait) + " is waited for a second time with no set between" +
           (before.empty() ? "" : " (first wait at " + before + ")");
  }
  --one.balance;
  one.wait = {wait.instruction, wait.pipe, next_number(wait.pipe), wait.where, wait.step, true};
  return "";
}

bool Queues::any_waiting() const {
  return std::any_of(std::begin(queue_), std::end(queue_), [](const auto& q) { return !q.empty(); });
}

uint32_t Queues::next_number(Pipe pipe) const {
  return number_[index(pipe)] + static_cast<uint32_t>(queue_[index(pipe)].size()) + 1;
}

void Queues::push(const Issue& what, std::function<void()> compute) {
  Clock issued = clock_[index(Pipe::S)];
  queue_[index(what.pipe)].push_back({what, std::move(compute), issued});
}

bool Queues::pop_ready(Pending* next) {
  for (auto& queue : queue_) {
    if (queue.empty() || (queue.front().what.kind == Kind::wait && !flag_is_up(queue.front().what))) continue;
    *next = std::move(queue.front());
    queue.pop_front();
    return true;
  }
  return false;
}

void Queues::start(const Issue& what, const Clock& issued) {
  const size_t p = index(what.pipe);
  join(clock_[p], issued);
  const uint32_t number = ++number_[p];
  if (p == index(Pipe::S)) clock_[p][p] = number;  // S itself runs one thing after another
  auto& log = log_[p];
  if (log.empty()) log.resize(kLog);
  log[number % kLog] = {number, what.instruction, what.where, what.step};
  if (what.kind == Kind::set) {
    Clock known = clock_[p];
    known[p] = number;
    flag(what).up.push_back(known);
  } else if (what.kind == Kind::wait) {
    join(clock_[p], flag(what).up.front());
    flag(what).up.pop_front();
  } else if (what.kind == Kind::barrier) {
    barrier(what.pipe);
  }
}

void Queues::barrier(Pipe pipe) { clock_[index(pipe)][index(pipe)] = number_[index(pipe)]; }

void Queues::barrier_before(Pipe pipe) { clock_[index(pipe)][index(pipe)] = number_[index(pipe)] - 1; }

void Queues::drain_all() {
  Clock& scalar = clock_[index(Pipe::S)];
  for (size_t p = 0; p < kPipes; ++p) {
    join(scalar, clock_[p]);
    scalar[p] = number_[p];
  }
}

Place Queues::place(Pipe pipe, uint32_t number) const {
  Place place;
  place.pipe = pipe;
  place.number = number;
  const auto& log = log_[index(pipe)];
  if (!log.empty() && log[number % kLog].number == number) {
    place.instruction = log[number % kLog].instruction;
    place.where = log[number % kLog].where;
    place.step = log[number % kLog].step;
    place.known = true;
  }
  return place;
}

std::string Queues::waiting_text() const {
  std::string text;
  for (int p = 0; p < kPipes; ++p) {
    if (queue_[p].empty()) continue;
    const Issue& head = queue_[p].front().what;
    const std::string line = source_line(head.where);
    text += std::string(text.empty() ? "" : "; ") + name_of(static_cast<Pipe>(p)) + " waits for the flag " +
            pair_text(head);
    if (!line.empty()) text += " (WaitFlag at " + line + ")";
    text += " with " + std::to_string(queue_[p].size() - 1) + " instructions behind it";
  }
  for (int from = 0; from < kPipes; ++from) {
    for (int to = 0; to < kPipes; ++to) {
      for (int event = 0; event < kMostEvents; ++event) {
        if (flags_[from][to][event].balance <= 0) continue;
        text += std::string("; the flag ") + name_of(static_cast<Pipe>(from)) + " to " +
                name_of(static_cast<Pipe>(to)) + ", event " + std::to_string(event) + " is set and nobody waits for it";
      }
    }
  }
  return text;
}

const Issue* Queues::first_waiting() const {
  for (const auto& queue : queue_) {
    if (!queue.empty()) return &queue.front().what;
  }
  return nullptr;
}

bool Queues::unpaired(Place* set, std::string* text) const {
  for (int from = 0; from < kPipes; ++from) {
    for (int to = 0; to < kPipes; ++to) {
      for (int event = 0; event < kMostEvents; ++event) {
        const Flag& one = flags_[from][to][event];
        if (one.balance == 0) continue;
        *set = one.set;
        *text = std::string("the flag ") + name_of(static_cast<Pipe>(from)) + " to " + name_of(static_cast<Pipe>(to)) +
                ", event " + std::to_string(event) + " is still set when the kernel ends: no WaitFlag took it";
        return true;
      }
    }
  }
  return false;
}

}  // namespace hajax::emulator
