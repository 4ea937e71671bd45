#include "native/tools/order_search/problem.h"

#include <stdexcept>
#include <string>

#include "native/tools/order_search/placement.h"

namespace hajax::search {
namespace {

template <typename T>
T number(std::istream& in, const char* name) {
  T value;
  if (!(in >> value)) throw std::runtime_error(std::string("problem: expected a number for ") + name);
  return value;
}

int within(std::istream& in, const char* name, int least, int end) {
  const int value = number<int>(in, name);
  if (value < least || value >= end) {
    throw std::runtime_error(std::string("problem: expected ") + name + " from " + std::to_string(least) + " to " +
                             std::to_string(end - 1) + ", got " + std::to_string(value));
  }
  return value;
}

constexpr int kMost = 1 << 16;

Step read_step(std::istream& in, int steps, int buffers) {
  Step step{};
  step.pipe = within(in, "pipe", 0, kPipes);
  step.instructions = within(in, "instructions", 1, kMost);
  step.cycles = number<double>(in, "cycles");
  step.first = number<double>(in, "first");
  step.latency = number<double>(in, "latency");
  step.scalar = number<double>(in, "scalar");
  step.run = within(in, "run", 1, kMost);
  step.mask = within(in, "mask", -1, kMost);
  step.many = within(in, "many", 0, 2) != 0;
  const int before = within(in, "predecessors", 0, kMost);
  const int earlier = within(in, "predecessors of earlier iterations", 0, kMost);
  const int uses = within(in, "uses", 0, kMost);
  for (int i = 0; i < before; ++i) step.before.push_back(within(in, "predecessor", 0, steps));
  for (int i = 0; i < earlier; ++i) {
    const int distance = within(in, "distance", 1, 3);
    step.earlier.emplace_back(distance, within(in, "predecessor", 0, steps));
  }
  for (int i = 0; i < uses; ++i) step.uses.push_back(within(in, "buffer", 0, buffers));
  return step;
}

}  // namespace

void require_legal(const Problem& problem) {
  for (int at : problem.start) {
    if (at < 0 || at >= problem.count()) throw std::runtime_error("problem: expected steps in the start");
  }
  std::vector<int> place(problem.steps.size(), -1);
  for (int at = 0; at < problem.count(); ++at) place[problem.start[at]] = at;
  for (int at = 0; at < problem.count(); ++at) {
    if (place[at] < 0) throw std::runtime_error("problem: expected a start of all steps");
    for (int one : problem.steps[at].before) {
      if (place[one] > place[at]) throw std::runtime_error("problem: expected a start that keeps what steps depend on");
    }
  }
  Placement placement(problem);
  placement.live_in(problem.start);
  if (!placement.is_legal()) throw std::runtime_error("problem: expected addresses that keep buffers apart");
}

Problem read_problem(std::istream& in) {
  Problem problem{};
  const int steps = within(in, "steps", 1, kMost);
  const int buffers = within(in, "buffers", 0, kMost);
  const int memories = within(in, "memories", 0, 16);
  problem.depth = within(in, "queue depth", 1, kMost);
  problem.issue = number<double>(in, "issue cycles");
  problem.argument = number<double>(in, "argument cycles");
  problem.flag = number<double>(in, "flag cycles");
  problem.mask = number<double>(in, "mask cycles");
  problem.carried = within(in, "carried", 0, 2) != 0;
  for (int at = 0; at < steps; ++at) problem.steps.push_back(read_step(in, steps, buffers));
  for (int at = 0; at < buffers; ++at) {
    const int memory = within(in, "memory", 0, memories);
    problem.buffers.push_back({memory, number<long>(in, "bytes")});
  }
  for (int at = 0; at < memories; ++at) {
    const long from = number<long>(in, "from");
    problem.memories.push_back({from, number<long>(in, "to")});
  }
  for (int at = 0; at < steps; ++at) problem.start.push_back(within(in, "start", 0, steps));
  for (int at = 0; at < buffers; ++at) problem.addresses.push_back(number<long>(in, "address"));
  for (int at = 0; at < steps; ++at) {
    for (int one : problem.steps[at].before) problem.steps[one].after.push_back(at);
  }
  require_legal(problem);
  return problem;
}

}  // namespace hajax::search
