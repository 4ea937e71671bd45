#include "native/tools/order_search/placement.h"

#include <algorithm>

namespace hajax::search {

Placement::Placement(const Problem& problem) : problem_(problem), addresses_(problem.addresses) {
  by_memory_.resize(problem.memories.size());
  for (size_t at = 0; at < problem.buffers.size(); ++at) {
    by_memory_[problem.buffers[at].memory].push_back(static_cast<int>(at));
  }
}

void Placement::live_in(const std::vector<int>& order) {
  first_.assign(problem_.buffers.size(), -1);
  last_.resize(problem_.buffers.size());
  for (int place = 0; place < problem_.count(); ++place) {
    for (int one : problem_.steps[order[place]].uses) {
      if (first_[one] < 0) first_[one] = place;
      last_[one] = place;
    }
  }
}

bool Placement::is_legal() const {
  for (size_t at = 0; at < problem_.buffers.size(); ++at) {
    const Buffer& buffer = problem_.buffers[at];
    const Memory& memory = problem_.memories[buffer.memory];
    if (addresses_[at] < memory.from || addresses_[at] + buffer.bytes > memory.to) return false;
    if (is_in_the_way(static_cast<int>(at))) return false;
  }
  return true;
}

bool Placement::is_in_the_way(int buffer) const {
  for (int other : by_memory_[problem_.buffers[buffer].memory]) {
    if (other != buffer && alive_together(buffer, other) && share_bytes(buffer, other)) return true;
  }
  return false;
}

bool Placement::repair(const int* steps, int count, std::mt19937* random) {
  for (int at = 0; at < count; ++at) {
    for (int one : problem_.steps[steps[at]].uses) {
      if (is_in_the_way(one) && !move(one, random)) return false;
    }
  }
  return true;
}

bool Placement::move(int buffer, std::mt19937* random) {
  find_candidates(buffer);
  if (candidates_.empty()) return false;
  addresses_[buffer] = candidates_[(*random)() % candidates_.size()];
  return true;
}

// Where the free pieces begin and end: multiples of the size if there are any, so that smaller buffers leave whole
// places of larger ones free.
void Placement::find_candidates(int buffer) {
  const Buffer& its = problem_.buffers[buffer];
  const Memory& memory = problem_.memories[its.memory];
  taken_.clear();
  for (int other : by_memory_[its.memory]) {
    if (other != buffer && alive_together(buffer, other)) {
      taken_.emplace_back(addresses_[other], addresses_[other] + problem_.buffers[other].bytes);
    }
  }
  taken_.emplace_back(memory.to, memory.to);
  std::sort(taken_.begin(), taken_.end());
  long grid = 1;
  while (grid * 2 <= its.bytes) grid *= 2;
  candidates_.clear();
  size_t aligned = 0;  // of the candidates, those in front
  long free = memory.from;
  for (const auto& [from, to] : taken_) {
    const long up = (free + grid - 1) / grid * grid, down = (from - its.bytes) / grid * grid;
    for (long at : {free, up, from - its.bytes, down}) {
      if (at < free || at + its.bytes > from) continue;
      candidates_.push_back(at);
      if (at % grid == 0) std::swap(candidates_[aligned++], candidates_.back());
    }
    free = std::max(free, to);
  }
  if (aligned > 0) candidates_.resize(aligned);
}

}  // namespace hajax::search
