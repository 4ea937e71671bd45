#include "native/tools/order_search/period.h"

#include <algorithm>

#include "native/tools/order_search/core.h"

namespace hajax::search {
namespace {

constexpr int kIterations = 3;  // walked for flags: what orders one behind the two in front of it orders all
constexpr int kSettling = 2;    // iterations until their cycles repeat, about
constexpr int kRemembered = 4;  // iterations whose flags are kept: more than any distance

}  // namespace

Period::Period(const Problem& problem) : problem_(problem) {
  by_memory_.resize(problem.memories.size());
  for (size_t at = 0; at < problem.buffers.size(); ++at) {
    by_memory_[problem.buffers[at].memory].push_back(static_cast<int>(at));
  }
  const size_t steps = problem.steps.size();
  sharers_.resize(problem.buffers.size());
  places_.resize(steps);
  known_.resize(kIterations * steps);
  waits_.resize(steps);
  sets_.resize(steps);
  risen_.resize(kRemembered);
}

double Period::operator()(const std::vector<int>& order, const std::vector<long>& addresses, int iterations) {
  find_sharers(addresses);
  find_flags(order);
  return run(order, iterations);
}

void Period::find_sharers(const std::vector<long>& addresses) {
  for (std::vector<int>& buffers : by_memory_) {
    std::sort(buffers.begin(), buffers.end(), [&](int a, int b) { return addresses[a] < addresses[b]; });
    for (int one : buffers) sharers_[one].assign(1, one);
    for (size_t i = 0; i < buffers.size(); ++i) {
      const long end = addresses[buffers[i]] + problem_.buffers[buffers[i]].bytes;
      for (size_t j = i + 1; j < buffers.size() && addresses[buffers[j]] < end; ++j) {
        sharers_[buffers[i]].push_back(buffers[j]);
        sharers_[buffers[j]].push_back(buffers[i]);
      }
    }
  }
}

// The latest step of each pipe that this one has to follow.
Period::Clock Period::wanted(const std::vector<int>& order, int iteration, int step) {
  Clock want;
  want.fill(-1);
  const int steps = problem_.count();
  const auto need = [&](int number) {
    int& latest = want[problem_.steps[order[number % steps]].pipe];
    latest = std::max(latest, number);
  };
  const Step& its = problem_.steps[step];
  for (int one : its.before) need(iteration * steps + places_[one]);
  if (problem_.carried) {
    for (const auto& [distance, one] : its.earlier) {
      if (distance <= iteration) need((iteration - distance) * steps + places_[one]);
    }
  }
  for (int one : its.uses) {
    if (opened_[one]) continue;
    opened_[one] = 1;
    for (int other : sharers_[one]) {
      for (int pipe = 0; pipe < kPipes; ++pipe) want[pipe] = std::max(want[pipe], last_use_[other][pipe]);
    }
  }
  return want;
}

// A pipe that waits for a flag knows all that the flag's pipe knew: what follows from that needs no flag.
void Period::find_flags(const std::vector<int>& order) {
  const int steps = problem_.count();
  for (int at = 0; at < steps; ++at) places_[order[at]] = at;
  Clock nothing;
  nothing.fill(-1);
  std::array<Clock, kPipes> knows;
  knows.fill(nothing);
  last_use_.assign(problem_.buffers.size(), nothing);
  barriers_.assign(problem_.steps.size(), 0);
  flags_.clear();
  for (int at = 0; at < steps; ++at) {
    waits_[at].clear();
    sets_[at].clear();
  }
  const int iterations = problem_.carried ? kIterations : 1;
  for (int iteration = 0; iteration < iterations; ++iteration) {
    opened_.assign(problem_.buffers.size(), 0);
    for (int place = 0; place < steps; ++place) {
      const int number = iteration * steps + place;
      const Step& step = problem_.steps[order[place]];
      Clock& mine = knows[step.pipe];
      Clock want = wanted(order, iteration, order[place]);
      const int own = want[step.pipe];
      const bool barrier = !step.many && own > mine[step.pipe];
      want[step.pipe] = -1;
      for (int pipe = 0; pipe < kPipes; ++pipe) {
        if (want[pipe] <= mine[pipe]) want[pipe] = -1;
      }
      if (iteration == iterations - 1) add_flags(want, iteration, place);
      for (int pipe = 0; pipe < kPipes; ++pipe) {
        if (want[pipe] < 0) continue;
        const Clock& theirs = known_[want[pipe]];
        for (int other = 0; other < kPipes; ++other) mine[other] = std::max(mine[other], theirs[other]);
        mine[pipe] = std::max(mine[pipe], want[pipe]);
      }
      if (barrier && own > mine[step.pipe]) {
        mine[step.pipe] = number - 1;
        barriers_[place] |= iteration == iterations - 1;
      }
      known_[number] = mine;
      for (int one : step.uses) last_use_[one][step.pipe] = number;
    }
  }
}

void Period::add_flags(const Clock& want, int iteration, int place) {
  const int steps = problem_.count();
  for (int pipe = 0; pipe < kPipes; ++pipe) {
    if (want[pipe] < 0) continue;
    bool covered = false;
    for (int other = 0; other < kPipes; ++other) {
      covered |= other != pipe && want[other] >= 0 && known_[want[other]][pipe] >= want[pipe];
    }
    if (covered) continue;
    const int flag = static_cast<int>(flags_.size());
    const int distance = iteration - want[pipe] / steps;
    flags_.push_back({want[pipe] % steps, distance});
    waits_[place].push_back(flag);
    sets_[want[pipe] % steps].push_back(flag);
  }
}

double Period::run(const std::vector<int>& order, int iterations) {
  for (std::vector<double>& one : risen_) one.assign(flags_.size(), 0.0);
  Core core(problem_);
  const int last = problem_.carried ? kSettling + iterations : 1;
  double settled = 0.0;
  for (int iteration = 0; iteration < last; ++iteration) {
    if (problem_.carried && iteration == kSettling) settled = core.end();
    for (int place = 0; place < problem_.count(); ++place) {
      const Step& step = problem_.steps[order[place]];
      core.spend(step.scalar);
      for (int flag : waits_[place]) core.hold(step.pipe, risen_[iteration % kRemembered][flag]);
      if (barriers_[place]) core.hold(step.pipe, core.done(step.pipe));
      core.set_mask(step.mask);
      core.work(step);
      for (int flag : sets_[place]) {
        risen_[(iteration + flags_[flag].distance) % kRemembered][flag] = core.set_flag(step.pipe);
      }
    }
  }
  return (core.end() - settled) / (problem_.carried ? iterations : 1);
}

}  // namespace hajax::search
