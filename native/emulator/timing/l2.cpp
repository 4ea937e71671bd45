#include "native/emulator/timing/l2.h"

#include <algorithm>
#include <stdexcept>

namespace hajax::emulator {
namespace {

constexpr int64_t kEmpty = -1;

size_t checked_sets(const hj_target& target) {
  const int64_t line = target.l2_line_bytes;
  const bool whole = line >= L2::kSector && line <= 64 * L2::kSector && line % L2::kSector == 0;
  if (!whole || target.l2_ways < 1 || target.l2_bytes < line * target.l2_ways) {
    throw std::invalid_argument("L2: expected lines of 32 to 2048 bytes in steps of 32, and room for one set of them");
  }
  return static_cast<size_t>(target.l2_bytes / (line * target.l2_ways));
}

int64_t bytes_of(uint64_t sectors) { return L2::kSector * __builtin_popcountll(sectors); }

}  // namespace

L2::L2(const hj_target& target)
    : line_bytes_(target.l2_line_bytes),
      ways_(static_cast<size_t>(target.l2_ways)),
      sets_(checked_sets(target)),
      tags_(sets_ * ways_, kEmpty),
      valid_(sets_ * ways_),
      dirty_(sets_ * ways_),
      used_(sets_ * ways_) {}

L2Traffic L2::access(const GmAccess& access) {
  L2Traffic traffic;
  for (int32_t run = 0; run < access.runs; ++run) {
    int64_t at = access.offset + run * access.stride;
    const int64_t end = at + access.bytes;
    while (at < end) {
      const int64_t line = at / line_bytes_;
      const int64_t start = line * line_bytes_;
      const int64_t stop = std::min(end, start + line_bytes_);
      const int64_t first = (at - start) / kSector;
      const int64_t count = (stop - start + kSector - 1) / kSector - first;
      const uint64_t sectors = (count == 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1) << first;
      touch(line, sectors, access.write, &traffic);
      at = stop;
    }
  }
  return traffic;
}

void L2::touch(int64_t line, uint64_t sectors, bool write, L2Traffic* traffic) {
  const size_t way = way_of(line, static_cast<size_t>(line) % sets_, traffic);
  traffic->hit += bytes_of(sectors & valid_[way]);
  traffic->missed += bytes_of(sectors & ~valid_[way]);
  valid_[way] |= sectors;
  if (write) dirty_[way] |= sectors;
  used_[way] = ++now_;
}

// The way that holds the line, emptied for it when none does.
size_t L2::way_of(int64_t line, size_t set, L2Traffic* traffic) {
  const size_t begin = set * ways_;
  const size_t end = begin + ways_;
  size_t oldest = begin;
  for (size_t way = begin; way < end; ++way) {
    if (tags_[way] == line) return way;
    if (used_[way] < used_[oldest]) oldest = way;
  }
  traffic->written_back += bytes_of(dirty_[oldest]);
  tags_[oldest] = line;
  valid_[oldest] = 0;
  dirty_[oldest] = 0;
  return oldest;
}

}  // namespace hajax::emulator
