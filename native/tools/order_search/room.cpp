#include "native/tools/order_search/room.h"

#include <algorithm>
#include <tuple>

namespace hajax::search {

void Room::reset(long from, long to) {
  pieces_.clear();
  if (from < to) pieces_.push_back({from, to, 0.0});
}

bool Room::take(long bytes, double now, double* when, long* address) {
  long grid = 1;
  while (grid * 2 <= bytes) grid *= 2;
  bool found = false;
  std::tuple<bool, double, long, long> best;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    long run = pieces_[i].to;
    for (size_t j = i + 1; j < pieces_.size() && pieces_[j].from == run; ++j) run = pieces_[j].to;
    const long first = pieces_[i].from, aligned = (first + grid - 1) / grid * grid;
    for (long at : {first, aligned}) {
      if ((at >= pieces_[i].to && at != first) || at + bytes > run) continue;
      double free = now;
      for (size_t j = i; j < pieces_.size() && pieces_[j].from < at + bytes; ++j)
        free = std::max(free, pieces_[j].when);
      const std::tuple<bool, double, long, long> one(at % grid != 0, free, run - at - bytes, at);
      if (!found || one < best) best = one;
      found = true;
    }
  }
  if (!found) return false;
  *when = std::get<1>(best);
  *address = std::get<3>(best);
  const long from = *address, to = from + bytes;
  changed_.clear();
  for (const Piece& piece : pieces_) {
    if (piece.to <= from || piece.from >= to) {
      changed_.push_back(piece);
      continue;
    }
    if (piece.from < from) changed_.push_back({piece.from, from, piece.when});
    if (piece.to > to) changed_.push_back({to, piece.to, piece.when});
  }
  pieces_.swap(changed_);
  return true;
}

void Room::give(long from, long bytes, double when, double now) {
  const Piece given{from, from + bytes, when};
  changed_.clear();
  bool placed = false;
  for (const Piece& piece : pieces_) {
    if (!placed && from < piece.from) {
      append(given, now);
      placed = true;
    }
    append(piece, now);
  }
  if (!placed) append(given, now);
  pieces_.swap(changed_);
}

void Room::append(const Piece& piece, double now) {
  if (!changed_.empty() && changed_.back().to == piece.from && changed_.back().when <= now && piece.when <= now) {
    changed_.back().to = piece.to;
    changed_.back().when = std::max(changed_.back().when, piece.when);
  } else {
    changed_.push_back(piece);
  }
}

}  // namespace hajax::search
