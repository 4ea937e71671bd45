// Addresses of the buffers of an order: no two that are alive together share bytes.
#ifndef HAJAX_NATIVE_TOOLS_ORDER_SEARCH_PLACEMENT_H_
#define HAJAX_NATIVE_TOOLS_ORDER_SEARCH_PLACEMENT_H_

#include <random>
#include <utility>
#include <vector>

#include "native/tools/order_search/problem.h"

namespace hajax::search {

class Placement {
 public:
  explicit Placement(const Problem& problem);

  const std::vector<long>& addresses() const { return addresses_; }
  void set_addresses(const std::vector<long>& addresses) { addresses_ = addresses; }

  // Of each buffer, the places of its first and its last user.
  void live_in(const std::vector<int>& order);

  // Whether all buffers lie in their memories, apart from those that are alive with them.
  bool is_legal() const;

  // Gives the buffers of these steps, where they are in the way, other addresses. False: there is no room.
  bool repair(const int* steps, int count, std::mt19937* random);

  // Another address for one buffer, if it has any.
  bool move(int buffer, std::mt19937* random);

 private:
  bool alive_together(int a, int b) const { return first_[a] <= last_[b] && first_[b] <= last_[a]; }
  bool share_bytes(int a, int b) const {
    return addresses_[a] < addresses_[b] + problem_.buffers[b].bytes &&
           addresses_[b] < addresses_[a] + problem_.buffers[a].bytes;
  }
  bool is_in_the_way(int buffer) const;
  void find_candidates(int buffer);

  const Problem& problem_;
  std::vector<std::vector<int>> by_memory_;
  std::vector<long> addresses_;
  std::vector<int> first_, last_;
  std::vector<long> candidates_;
  std::vector<std::pair<long, long>> taken_;
};

}  // namespace hajax::search

#endif  // HAJAX_NATIVE_TOOLS_ORDER_SEARCH_PLACEMENT_H_
