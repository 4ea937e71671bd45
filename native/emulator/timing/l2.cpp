#include "native/emulator/timing/l2.h"

#include <algorithm>
#include <stdexcept>

namespace hajax::emulator {
namespace {

constexpr uint32_t kEmpty = ~uint32_t{0};
constexpr int64_t kMostSectors = 16;  // of a line

size_t checked_sets(const hj_target& target) {
  const int64_t line = target.l2_line_bytes;
  const bool whole = line >= L2::kSector && line <= kMostSectors * L2::kSector && line % L2::kSector == 0;
  if (!whole || target.l2_ways < 1 || target.l2_bytes < line * target.l2_ways) {
    throw std::invalid_argument("L2: expected lines of 32 to 512 bytes in steps of 32, and room for one set of them");
  }
  return static_cast<size_t>(target.l2_bytes / (line * target.l2_ways));
}

// Without the CPU's own instruction, which not every x86-64 has, a bit count is a call: most masks here are empty or
// full.
int64_t bytes_of(unsigned sectors) {
  int64_t bytes = 0;
  for (; sectors != 0; sectors &= sectors - 1) bytes += L2::kSector;
  return bytes;
}

// The logarithm of a power of two, -1 for other numbers.
int log_of(int64_t value) { return (value & (value - 1)) == 0 ? __builtin_ctzll(static_cast<uint64_t>(value)) : -1; }

}  // namespace

L2::L2(const hj_target& target)
    : line_bytes_(target.l2_line_bytes),
      ways_(static_cast<size_t>(target.l2_ways)),
      sets_(checked_sets(target)),
      line_shift_(log_of(line_bytes_)),
      set_shift_(log_of(static_cast<int64_t>(sets_))),
      recent_(sets_),
      tags_(sets_ * ways_, kEmpty),
      valid_(sets_ * ways_),
      dirty_(sets_ * ways_),
      used_(sets_ * ways_) {}

L2Traffic L2::access(const GmAccess& access) {
  L2Traffic traffic;
  for (int32_t run = 0; run < access.runs; ++run) {
    int64_t at = access.offset + run * access.stride;
    const int64_t end = at + access.bytes;
    for (int64_t line = line_shift_ >= 0 ? at >> line_shift_ : at / line_bytes_; at < end; ++line) {
      const int64_t start = line * line_bytes_;
      const int64_t stop = std::min(end, start + line_bytes_);
      const auto first = static_cast<unsigned>((at - start) / kSector);
      const auto last = static_cast<unsigned>((stop - start + kSector - 1) / kSector);
      touch(line, static_cast<Sectors>((1u << last) - (1u << first)), access.write, &traffic);
      at = stop;
    }
  }
  return traffic;
}

void L2::touch(int64_t line, Sectors sectors, bool write, L2Traffic* traffic) {
  const auto number = static_cast<size_t>(line);
  const size_t above = set_shift_ >= 0 ? number >> set_shift_ : number / sets_;
  const size_t way = way_of(number - above * sets_, static_cast<uint32_t>(above), traffic);
  const Sectors valid = valid_[way];
  traffic->hit += bytes_of(sectors & valid);
  traffic->missed += bytes_of(sectors & ~valid);
  valid_[way] = valid | sectors;
  if (write) dirty_[way] |= sectors;
  used_[way] = ++now_;
}

// The way that holds the line, emptied for it when none does.
size_t L2::way_of(size_t set, uint32_t tag, L2Traffic* traffic) {
  const size_t begin = set * ways_;
  const size_t end = begin + ways_;
  const size_t recent = begin + recent_[set];
  if (tags_[recent] == tag) return recent;
  size_t found = end;
  for (size_t way = begin; way < end; ++way) found = tags_[way] == tag ? way : found;
  if (found != end) {
    recent_[set] = static_cast<uint16_t>(found - begin);
    return found;
  }
  size_t oldest = begin;
  for (size_t way = begin + 1; way < end; ++way) oldest = used_[way] < used_[oldest] ? way : oldest;
  traffic->written_back += bytes_of(dirty_[oldest]);
  tags_[oldest] = tag;
  valid_[oldest] = 0;
  dirty_[oldest] = 0;
  recent_[set] = static_cast<uint16_t>(oldest - begin);
  return oldest;
}

}  // namespace hajax::emulator
