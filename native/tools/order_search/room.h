// Free bytes of one memory while an order is walked: which ones, and since when.
#ifndef HAJAX_NATIVE_TOOLS_ORDER_SEARCH_ROOM_H_
#define HAJAX_NATIVE_TOOLS_ORDER_SEARCH_ROOM_H_

#include <vector>

namespace hajax::search {

class Room {
 public:
  void reset(long from, long to);

  // Takes `bytes`: multiples of the size first, so that smaller buffers leave whole places of larger ones free; then
  // what is free early, then where little is left over. False when there is no room. when: from then on it is free.
  bool take(long bytes, double now, double* when, long* address);

  void give(long from, long bytes, double when, double now);

 private:
  struct Piece {
    long from, to;
    double when;
  };
  std::vector<Piece> pieces_, changed_;

  void append(const Piece& piece, double now);
};

}  // namespace hajax::search

#endif  // HAJAX_NATIVE_TOOLS_ORDER_SEARCH_ROOM_H_
