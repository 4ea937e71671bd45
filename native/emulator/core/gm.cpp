#include "native/emulator/core/gm.h"

#include <sys/mman.h>

#include <new>
#include <shared_mutex>

namespace hajax::emulator {
namespace {

constexpr int64_t kAlignment = 512;
constexpr int64_t kGuard = 512;  // at least so many bytes between two allocations belong to neither
constexpr int64_t kPage = 4096;

int64_t round_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

uint8_t* reserve(int64_t bytes) {
  void* range = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) throw std::bad_alloc();
  return static_cast<uint8_t*>(range);
}

}  // namespace

struct Gm::Map {
  mutable std::shared_mutex lock;
  std::map<int64_t, int64_t> live;   // start -> bytes
  std::map<int64_t, int64_t> freed;  // start -> bytes, for messages only
  int64_t used = 0;
};

Gm::Gm(int64_t bytes) : bytes_(round_up(bytes, kPage)), map_(std::make_unique<Map>()) {
  base_ = reserve(bytes_);
  try {
    written_ = reserve(round_up(bytes_ / 8, kPage));
  } catch (...) {
    munmap(base_, static_cast<size_t>(bytes_));
    throw;
  }
}

Gm::~Gm() {
  munmap(base_, static_cast<size_t>(bytes_));
  munmap(written_, static_cast<size_t>(round_up(bytes_ / 8, kPage)));
}

void* Gm::allocate(int64_t bytes) {
  if (bytes <= 0 || bytes > bytes_) return nullptr;
  const std::unique_lock guard(map_->lock);
  int64_t start = kAlignment;  // offset 0 stays free: it would look like a null pointer in reports
  for (const auto& [from, length] : map_->live) {
    if (start + bytes + kGuard <= from) break;
    start = round_up(from + length + kGuard, kAlignment);
  }
  if (start + bytes + kGuard > bytes_) return nullptr;
  map_->live[start] = bytes;
  map_->used += bytes;
  map_->freed.erase(map_->freed.lower_bound(start), map_->freed.lower_bound(start + bytes));
  // Whole words: the marks of a neighbour cannot share one, as starts are multiples of 512 with a gap before them.
  __builtin_memset(written_ + start / 8, 0, static_cast<size_t>(round_up(bytes, 32) / 8));
  return base_ + start;
}

bool Gm::release(void* pointer) {
  if (!owns(pointer)) return false;
  const std::unique_lock guard(map_->lock);
  const auto found = map_->live.find(offset(pointer));
  if (found == map_->live.end()) return false;
  map_->freed[found->first] = found->second;
  map_->used -= found->second;
  // Host memory of whole pages inside goes back to the system.
  const int64_t from = round_up(found->first, kPage);
  const int64_t to = (found->first + found->second) / kPage * kPage;
  if (to > from) madvise(base_ + from, static_cast<size_t>(to - from), MADV_DONTNEED);
  map_->live.erase(found);
  return true;
}

bool Gm::owns(const void* pointer) const {
  const auto* byte = static_cast<const uint8_t*>(pointer);
  return byte >= base_ && byte < base_ + bytes_;
}

Gm::Block Gm::find(int64_t offset) const {
  const std::shared_lock guard(map_->lock);
  auto after = map_->live.upper_bound(offset);
  if (after == map_->live.begin()) return {};
  --after;
  if (offset >= after->first + after->second) return {};
  return {after->first, after->second};
}

std::string Gm::remark(int64_t offset) const {
  const std::shared_lock guard(map_->lock);
  const auto in = [offset](const std::map<int64_t, int64_t>& blocks) {
    auto after = blocks.upper_bound(offset);
    return after == blocks.begin() ? blocks.end() : --after;
  };
  const auto freed = in(map_->freed);
  if (freed != map_->freed.end() && offset < freed->first + freed->second) {
    return "inside an allocation of " + std::to_string(freed->second) + " bytes that was freed";
  }
  const auto live = in(map_->live);
  if (live != map_->live.end()) {
    return std::to_string(offset - live->first - live->second) + " bytes past the end of an allocation of " +
           std::to_string(live->second) + " bytes";
  }
  return "in no allocation";
}

int64_t Gm::used() const {
  const std::shared_lock guard(map_->lock);
  return map_->used;
}

namespace {

// The marks of 32 bytes are one word; cores that share a word at the edges of their parts mark it atomically.
uint32_t word_mask(int64_t from, int64_t to) {  // bits from..to-1 of a word
  const uint32_t below_to = to >= 32 ? ~uint32_t{0} : (uint32_t{1} << to) - 1;
  return below_to & ~((uint32_t{1} << from) - 1);
}

}  // namespace

void Gm::mark_written(int64_t offset, int64_t bytes) {
  auto* words = reinterpret_cast<uint32_t*>(written_);
  for (int64_t at = offset; at < offset + bytes;) {
    const int64_t word = at / 32;
    const int64_t end = offset + bytes < (word + 1) * 32 ? offset + bytes : (word + 1) * 32;
    const uint32_t mask = word_mask(at - word * 32, end - word * 32);
    if ((__atomic_load_n(words + word, __ATOMIC_RELAXED) & mask) != mask) {
      __atomic_fetch_or(words + word, mask, __ATOMIC_RELAXED);
    }
    at = end;
  }
}

int64_t Gm::first_unwritten(int64_t offset, int64_t bytes) const { return first_mark(offset, bytes, ~uint32_t{0}); }
int64_t Gm::first_written(int64_t offset, int64_t bytes) const { return first_mark(offset, bytes, 0); }

// The first byte whose mark is the opposite of that of `flip`, of which all bits are equal.
int64_t Gm::first_mark(int64_t offset, int64_t bytes, uint32_t flip) const {
  const auto* words = reinterpret_cast<const uint32_t*>(written_);
  for (int64_t at = offset; at < offset + bytes;) {
    const int64_t word = at / 32;
    const int64_t end = offset + bytes < (word + 1) * 32 ? offset + bytes : (word + 1) * 32;
    const uint32_t mask = word_mask(at - word * 32, end - word * 32);
    const uint32_t found = mask & (flip ^ __atomic_load_n(words + word, __ATOMIC_RELAXED));
    if (found != 0) return word * 32 + __builtin_ctz(found);
    at = end;
  }
  return -1;
}

}  // namespace hajax::emulator
