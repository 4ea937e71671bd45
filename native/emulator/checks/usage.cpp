#include "native/emulator/checks/usage.h"

#include <algorithm>

namespace hajax::emulator {
namespace {

constexpr int64_t kBlock = 32;

// Calls word(index, mask) for each 64-block word that the bytes reach into.
template <typename Word>
void for_each_word(int64_t offset, int64_t bytes, Word word) {
  const int64_t end = (offset + bytes + kBlock - 1) / kBlock;
  for (int64_t at = offset / kBlock; at < end;) {
    const int64_t index = at / 64;
    const int64_t to = std::min(end, (index + 1) * 64) - index * 64;
    const uint64_t below_to = to >= 64 ? ~uint64_t{0} : (uint64_t{1} << to) - 1;
    word(static_cast<size_t>(index), below_to & ~((uint64_t{1} << (at - index * 64)) - 1));
    at = (index + 1) * 64;
  }
}

}  // namespace

Usage::Usage(const int64_t* sizes) {
  for (int s = 1; s < kSpaces; ++s) used_[s].resize(static_cast<size_t>(sizes[s] / kBlock / 64 + 1));
}

void Usage::touch(Space space, int64_t offset, int64_t bytes) {
  const int s = static_cast<int>(space);
  int64_t added = 0;
  for_each_word(offset, bytes, [&](size_t index, uint64_t mask) {
    const uint64_t fresh = mask & ~used_[s][index];
    if (fresh == 0) return;  // the usual case, without the call that a bit count is on plain x86-64
    added += __builtin_popcountll(fresh);
    used_[s][index] |= fresh;
  });
  now_[s] += added * kBlock;
  peak_[s] = std::max(peak_[s], now_[s]);
}

void Usage::free(Space space, int64_t offset, int64_t bytes) {
  const int s = static_cast<int>(space);
  for_each_word(offset, bytes, [&](size_t index, uint64_t mask) {
    now_[s] -= __builtin_popcountll(mask & used_[s][index]) * kBlock;
    used_[s][index] &= ~mask;
  });
}

}  // namespace hajax::emulator
