// Memory of aclrtMallocHost. What was freed lately stays reserved and out of reach, so that a use of it is told from a
// use of the program's own memory, and no copy can touch what is no longer there.
#ifndef HAJAX_NATIVE_EMULATOR_ACL_HOST_MEMORY_H_
#define HAJAX_NATIVE_EMULATOR_ACL_HOST_MEMORY_H_

#include <stddef.h>
#include <stdint.h>

#include <deque>
#include <map>

namespace hajax::emulator::acl {

class HostMemory {
 public:
  struct Block {
    const uint8_t* start = nullptr;
    size_t bytes = 0;
    bool live = false;
  };

  void* allocate(size_t bytes);  // null when the system has no more
  bool release(void* pointer);   // false when it is not the start of a live block
  // The live or freed block that holds an address; null start when it is the program's own memory.
  Block find(const void* pointer) const;

 private:
  static constexpr size_t kKept = 256;  // freed blocks that are still known

  std::map<const uint8_t*, Block> blocks_;
  std::deque<const uint8_t*> freed_;
};

}  // namespace hajax::emulator::acl

#endif  // HAJAX_NATIVE_EMULATOR_ACL_HOST_MEMORY_H_
