// What an order costs: the modelled cycles of an iteration once iterations follow one another steadily.
#ifndef HAJAX_NATIVE_TOOLS_ORDER_SEARCH_PERIOD_H_
#define HAJAX_NATIVE_TOOLS_ORDER_SEARCH_PERIOD_H_

#include <array>
#include <utility>
#include <vector>

#include "native/tools/order_search/problem.h"

namespace hajax::search {

// Keeps its working memory between calls.
class Period {
 public:
  explicit Period(const Problem& problem);

  // The mean of `iterations` behind two that are not counted. addresses: of each buffer; those that are alive together
  // are apart.
  double operator()(const std::vector<int>& order, const std::vector<long>& addresses, int iterations = 2);

 private:
  // Numbers of steps counted through iterations in emission order, by pipe: all up to them are complete. -1: none.
  using Clock = std::array<int, kPipes>;

  void find_sharers(const std::vector<long>& addresses);
  void find_flags(const std::vector<int>& order);
  Clock wanted(const std::vector<int>& order, int iteration, int step);
  void add_flags(const Clock& want, int iteration, int place);
  double run(const std::vector<int>& order, int iterations);

  struct Flag {
    int producer;  // a place in the order
    int distance;  // iterations from it to the consumer
  };

  const Problem& problem_;
  std::vector<std::vector<int>> by_memory_,
      sharers_;                          // of each buffer, those that share bytes with it, itself among them
  std::vector<int> places_;              // of each step in the order
  std::vector<Clock> known_, last_use_;  // of each numbered step; of each buffer
  std::vector<char> opened_, barriers_;
  std::vector<Flag> flags_;
  std::vector<std::vector<int>> waits_, sets_;  // flags by place
  std::vector<std::vector<double>> risen_;      // by iteration modulo a few, and flag
};

}  // namespace hajax::search

#endif  // HAJAX_NATIVE_TOOLS_ORDER_SEARCH_PERIOD_H_
