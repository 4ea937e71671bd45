// Searches an emission order by simulated annealing: hajax_order_search PROBLEM SECONDS [SEED]
// The problem is what scripts/search_orders.py writes; ORDER a file that begins with a legal order to start from.
// Prints three lines: the modelled cycles of an iteration, the order, and the addresses of the buffers.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>
#include <string>

#include "native/tools/order_search/period.h"
#include "native/tools/order_search/placement.h"

namespace {

using namespace hajax::search;

constexpr double kHot = 1000.0, kCold = 1.0;  // cycles by which an order may be worse and still be taken, about
constexpr int kCheckTime = 64;                // evaluations between two looks at the time
constexpr double kChains = 0.4;               // of the moves of steps
constexpr double kReplaced = 0.1;             // of the moves: buffers that get another address
constexpr int kIterations = 8;                // of the final figure

struct Move {
  int from, length, by;
};

struct Found {
  std::vector<int> order;
  std::vector<long> addresses;
};

class Annealer {
 public:
  Annealer(const Problem& problem, unsigned seed)
      : problem_(problem), period_(problem), placement_(problem), random_(seed) {
    places_.resize(problem.steps.size());
    take(problem.start);
    placement_.live_in(order_);
    cycles_ = period_(order_, placement_.addresses());
  }

  // Cools down in this time; returns the best seen.
  Found run(double seconds) {
    Found best{order_, placement_.addresses()};
    double least = cycles_;
    const auto start = std::chrono::steady_clock::now();
    double heat = kHot;
    long tried = 0;
    for (long number = 0;; ++number) {
      if (number % kCheckTime == 0) {
        const double spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / seconds;
        if (spent >= 1.0) {
          std::fprintf(stderr, "%ld orders\n", tried);
          return best;
        }
        heat = kHot * std::pow(kCold / kHot, spent);
      }
      kept_ = placement_.addresses();
      const bool changed = uniform() < kReplaced ? replace() : reorder();
      if (changed) {
        ++tried;
        const double cycles = period_(moved_, placement_.addresses());
        if (cycles <= cycles_ || uniform() < std::exp((cycles_ - cycles) / heat)) {
          take(moved_);
          cycles_ = cycles;
          if (cycles < least) {
            least = cycles;
            best = {order_, placement_.addresses()};
          }
          continue;
        }
      }
      placement_.set_addresses(kept_);
    }
  }

 private:
  double uniform() { return std::uniform_real_distribution<double>(0.0, 1.0)(random_); }
  int below(int end) { return static_cast<int>(random_() % static_cast<unsigned>(end)); }

  // The same order with a buffer at another address.
  bool replace() {
    if (problem_.buffers.empty()) return false;
    moved_ = order_;
    placement_.live_in(moved_);
    return placement_.move(below(static_cast<int>(problem_.buffers.size())), &random_);
  }

  // Some steps somewhere else, their buffers at other addresses where they have to be.
  bool reorder() {
    moved_ = order_;
    if (!(uniform() < kChains ? move_chain() : move_run())) return false;
    placement_.live_in(moved_);
    return placement_.repair(chain_.data(), static_cast<int>(chain_.size()), &random_);
  }

  // Near by more often than far.
  int reach() {
    const double far = uniform();
    return far < 0.5 ? 8 : far < 0.8 ? 40 : 400;
  }

  // A step goes ahead of others, with what it depends on among them, or behind others with what depends on it.
  bool move_chain() {
    const int steps = problem_.count(), from = below(steps), by = 1 + below(reach());
    const bool ahead = below(2) != 0;
    const int to = ahead ? std::max(from - by, 0) : std::min(from + by, steps - 1);
    if (to == from) return false;
    chosen_.assign(problem_.steps.size(), 0);
    chosen_[static_cast<size_t>(order_[from])] = 1;
    for (int place = from; place != to; place += ahead ? -1 : 1) {
      const Step& step = problem_.steps[order_[place]];
      if (!chosen_[static_cast<size_t>(order_[place])]) continue;
      for (int one : ahead ? step.before : step.after) chosen_[static_cast<size_t>(one)] = 1;
    }
    const auto first = moved_.begin() + std::min(from, to), end = moved_.begin() + std::max(from, to) + 1;
    const auto is_chosen = [this](int step) { return chosen_[static_cast<size_t>(step)] != 0; };
    chain_.clear();
    std::copy_if(first, end, std::back_inserter(chain_), is_chosen);
    std::stable_partition(first, end, [&](int step) { return is_chosen(step) == ahead; });
    return true;
  }

  // A run of steps, mostly one, to another place.
  bool move_run() {
    Move move{};
    if (!draw(&move)) return false;
    const auto first = moved_.begin() + move.from, end = first + move.length;
    chain_.assign(first, end);
    if (move.by > 0) {
      std::rotate(first, end, end + move.by);
    } else {
      std::rotate(first + move.by, first, end);
    }
    return true;
  }

  void take(const std::vector<int>& order) {
    order_ = order;
    for (int at = 0; at < problem_.count(); ++at) places_[order_[at]] = at;
  }

  // False: it cannot go anywhere.
  bool draw(Move* move) {
    const int steps = problem_.count();
    const double kind = uniform();
    move->from = below(steps);
    move->length = kind < 0.3 ? 1 + below(6) : kind < 0.4 ? 1 + below(24) : 1;
    move->length = std::min(move->length, steps - move->from);
    const int end = move->from + move->length;
    int least = 0, most = steps - 1;
    for (int place = move->from; place < end; ++place) {
      for (int one : problem_.steps[order_[place]].before) {
        if (places_[one] < move->from) least = std::max(least, places_[one] + 1);
      }
      for (int one : problem_.steps[order_[place]].after) {
        if (places_[one] >= end) most = std::min(most, places_[one] - 1);
      }
    }
    const int most_by = reach(), low = std::max(least - move->from, -most_by), high = std::min(most - end + 1, most_by);
    if (low >= high) return false;
    move->by = low + below(high - low + 1);
    return move->by != 0;
  }

  const Problem& problem_;
  Period period_;
  Placement placement_;
  std::mt19937 random_;
  std::vector<int> order_, moved_, places_, chain_;
  std::vector<char> chosen_;
  std::vector<long> kept_;
  double cycles_ = 0.0;
};

template <typename T>
void print(const std::vector<T>& values) {
  for (size_t at = 0; at < values.size(); ++at) std::printf(at ? " %ld" : "%ld", static_cast<long>(values[at]));
  std::printf("\n");
}

void search(int argc, char** argv) {
  std::ifstream in(argv[1]);
  if (!in) throw std::runtime_error(std::string("cannot read ") + argv[1]);
  const Problem problem = read_problem(in);
  Annealer annealer(problem, argc > 3 ? static_cast<unsigned>(std::atoi(argv[3])) : 0u);
  const Found found = annealer.run(std::atof(argv[2]));
  std::printf("%.1f\n", Period(problem)(found.order, found.addresses, kIterations));
  print(found.order);
  print(found.addresses);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc > 4) {
    std::fprintf(stderr, "usage: hajax_order_search PROBLEM SECONDS [SEED]\n");
    return 2;
  }
  try {
    search(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hajax_order_search: %s\n", error.what());
    return 1;
  }
  return 0;
}
