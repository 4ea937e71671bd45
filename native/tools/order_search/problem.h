// A body's steps, what they depend on and the buffers that they share: what is searched for an emission order. Numbers
// only.
#ifndef HAJAX_NATIVE_TOOLS_ORDER_SEARCH_PROBLEM_H_
#define HAJAX_NATIVE_TOOLS_ORDER_SEARCH_PROBLEM_H_

#include <istream>
#include <vector>

namespace hajax::search {

constexpr int kPipes = 5;

struct Step {
  int pipe;
  int instructions;  // machine instructions, of `cycles` each
  double cycles;
  double first;    // what the first one adds after a pause of the pipe
  double latency;  // from an instruction's end to its result
  double scalar;   // of the scalar unit before the first one
  int run;         // instructions between two barriers of their own pipe
  int mask;        // of a vector step, else -1
  bool many;       // products that need no barrier behind others
  std::vector<int> before;
  std::vector<int> after;
  std::vector<std::pair<int, int>> earlier;  // iterations back, step
  std::vector<int> uses;                     // buffers that live within an iteration
};

struct Buffer {
  int memory;
  long bytes;
};

struct Memory {
  long from, to;
};

struct Problem {
  std::vector<Step> steps;
  std::vector<Buffer> buffers;
  std::vector<Memory> memories;
  int depth;  // of a pipe's queue
  double issue, argument, flag, mask;
  bool carried;                 // flags order an iteration behind the last one; else a barrier of all pipes
  std::vector<int> start;       // a legal order
  std::vector<long> addresses;  // of the buffers, for that

  int count() const { return static_cast<int>(steps.size()); }
};

// Throws std::runtime_error when the start is no order of all steps that keeps what they depend on.
void require_legal(const Problem& problem);

// Throws std::runtime_error when a number is missing or out of range, or the start is not legal.
Problem read_problem(std::istream& in);

}  // namespace hajax::search

#endif  // HAJAX_NATIVE_TOOLS_ORDER_SEARCH_PROBLEM_H_
