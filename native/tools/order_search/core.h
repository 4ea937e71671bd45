// A core in modelled time: the scalar unit issues in order into queues, and each pipe works in order. As step_cost.py.
#ifndef HAJAX_NATIVE_TOOLS_ORDER_SEARCH_CORE_H_
#define HAJAX_NATIVE_TOOLS_ORDER_SEARCH_CORE_H_

#include <algorithm>
#include <array>
#include <vector>

#include "native/tools/order_search/problem.h"

namespace hajax::search {

class Core {
 public:
  explicit Core(const Problem& problem) : problem_(problem) {
    for (Pipe& pipe : pipes_) pipe.left.assign(static_cast<size_t>(problem.depth), 0.0);
  }

  double scalar() const { return scalar_; }
  double done(int pipe) const { return pipes_[pipe].done; }

  double end() const {
    double latest = scalar_;
    for (const Pipe& pipe : pipes_) latest = std::max(latest, pipe.done);
    return latest;
  }

  void spend(double cycles) { scalar_ += cycles; }

  void set_mask(int mask) {
    if (mask == -1 || mask == mask_) return;
    mask_ = mask;
    scalar_ += problem_.mask;
  }

  // The pipe does nothing before.
  void wait_until(int pipe, double when) { pipes_[pipe].free = std::max(pipes_[pipe].free, when); }

  // An instruction that keeps its pipe until a flag has risen or all of its work is complete.
  void hold(int pipe, double until) {
    Pipe& its = pipes_[pipe];
    const double begin = issue(its, problem_.issue);
    its.drained |= until > begin;
    its.free = std::max(begin, until) + problem_.flag;
    its.done = std::max(its.done, its.free);
  }

  // When the flag rises: all before it is complete.
  double set_flag(int pipe) {
    Pipe& its = pipes_[pipe];
    its.free = issue(its, problem_.issue) + problem_.flag;
    its.done = std::max(its.done, its.free);
    return its.done;
  }

  void work(const Step& step) {
    Pipe& its = pipes_[step.pipe];
    const double cost = problem_.issue + problem_.argument;
    int left = step.run;  // until a barrier
    for (int i = 0; i < step.instructions; ++i) {
      if (left-- == 0) {
        hold(step.pipe, its.done);
        left = step.run - 1;
      }
      const double begin = issue(its, cost);
      its.free = begin + step.cycles + (its.drained ? step.first : 0.0);
      its.drained = false;
      its.done = std::max(its.done, its.free + step.latency);
    }
  }

 private:
  struct Pipe {
    double free = 0.0, done = 0.0;  // may start another; all complete
    bool drained = true;
    std::vector<double> left;  // when the last `depth` instructions left the queue
    size_t next = 0;
  };

  double issue(Pipe& pipe, double cost) {
    double& left = pipe.left[pipe.next];
    scalar_ = std::max(scalar_, left) + cost;
    pipe.next = pipe.next + 1 == pipe.left.size() ? 0 : pipe.next + 1;
    pipe.drained |= scalar_ > pipe.free;
    return left = std::max(scalar_, pipe.free);
  }

  const Problem& problem_;
  double scalar_ = 0.0;
  int mask_ = -1;
  std::array<Pipe, kPipes> pipes_;
};

}  // namespace hajax::search

#endif  // HAJAX_NATIVE_TOOLS_ORDER_SEARCH_CORE_H_
