// The L2 in front of DDR, over offsets of GM: set associative, least recently used, write back, allocating on reads and
// writes. Lines are filled and written back by sectors of 32 bytes, the unit of every move and of an LPDDR4X burst.
#ifndef HAJAX_NATIVE_EMULATOR_TIMING_L2_H_
#define HAJAX_NATIVE_EMULATOR_TIMING_L2_H_

#include <stddef.h>
#include <stdint.h>

#include <vector>

#include "hajax/abi/target.h"
#include "native/emulator/core/event.h"

namespace hajax::emulator {

// Bytes, in whole sectors.
struct L2Traffic {
  int64_t hit = 0;
  int64_t missed = 0;        // reads: fetched from DDR; writes: not fetched, but a line had to make room
  int64_t written_back = 0;  // to DDR, of the lines that made room
};

// One a device. A new one is empty (cold); kept over launches, it is warm.
class L2 {
 public:
  static constexpr int64_t kSector = 32;

  explicit L2(const hj_target& target);  // throws std::invalid_argument for sizes that make no cache
  L2Traffic access(const GmAccess& access);

 private:
  using Sectors = uint16_t;  // a bit a sector

  void touch(int64_t line, Sectors sectors, bool write, L2Traffic* traffic);
  size_t way_of(size_t set, uint32_t tag, L2Traffic* traffic);

  const int64_t line_bytes_;
  const size_t ways_;
  const size_t sets_;
  const int line_shift_;  // -1 when no power of two
  const int set_shift_;
  std::vector<uint16_t> recent_;  // by set: the way that was looked up last
  uint64_t now_ = 0;
  // By set, then way. Apart from one another, and small: a set's tags are one line of the host's cache.
  std::vector<uint32_t> tags_;
  std::vector<Sectors> valid_;
  std::vector<Sectors> dirty_;
  std::vector<uint64_t> used_;
};

}  // namespace hajax::emulator

#endif  // HAJAX_NATIVE_EMULATOR_TIMING_L2_H_
