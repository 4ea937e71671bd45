#include "native/emulator/acl/host_memory.h"

#include <sys/mman.h>

namespace hajax::emulator::acl {

void* HostMemory::allocate(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  const auto* start = static_cast<const uint8_t*>(memory);
  blocks_[start] = {start, bytes, true};
  return memory;
}

bool HostMemory::release(void* pointer) {
  const auto found = blocks_.find(static_cast<const uint8_t*>(pointer));
  if (found == blocks_.end() || !found->second.live) return false;
  // Mapped over, not unmapped: the address range stays taken, its memory goes back to the system.
  mmap(pointer, found->second.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  found->second.live = false;
  freed_.push_back(found->first);
  if (freed_.size() > kKept) {
    const auto oldest = blocks_.find(freed_.front());
    munmap(const_cast<uint8_t*>(oldest->first), oldest->second.bytes);
    blocks_.erase(oldest);
    freed_.pop_front();
  }
  return true;
}

HostMemory::Block HostMemory::find(const void* pointer) const {
  const auto* byte = static_cast<const uint8_t*>(pointer);
  auto after = blocks_.upper_bound(byte);
  if (after == blocks_.begin()) return {};
  --after;
  return byte < after->second.start + after->second.bytes ? after->second : Block{};
}

}  // namespace hajax::emulator::acl
