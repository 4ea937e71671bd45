// Global memory: one address range per process, allocations at the same offsets in every run.
#ifndef HAJAX_NATIVE_EMULATOR_CORE_GM_H_
#define HAJAX_NATIVE_EMULATOR_CORE_GM_H_

#include <stdint.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace hajax::emulator {

// A device's memory. Reserved as one range of host addresses; offsets are what clocks and reports see. Allocations
// start at multiples of 512 bytes with a guard gap behind each. Thread-safe; kernels only call the queries.
class Gm {
 public:
  explicit Gm(int64_t bytes);  // throws std::bad_alloc when the range cannot be reserved
  ~Gm();
  Gm(const Gm&) = delete;
  Gm& operator=(const Gm&) = delete;

  void* allocate(int64_t bytes);  // null when it does not fit
  bool release(void* pointer);    // false when it is not the start of a live allocation
  bool owns(const void* pointer) const;
  int64_t offset(const void* pointer) const { return static_cast<const uint8_t*>(pointer) - base_; }
  uint8_t* at(int64_t offset) const { return base_ + offset; }

  // The live allocation that holds `offset`: its start and size, or {0, -1}. "" or a remark (freed, after which).
  struct Block {
    int64_t start = 0;
    int64_t bytes = -1;
  };
  Block find(int64_t offset) const;
  std::string remark(int64_t offset) const;  // "512 bytes past the end of the allocation of 4096 bytes at 0x0"
  int64_t used() const;

  // Which bytes were ever written since their allocation. Marks are atomic: cores run in parallel.
  void mark_written(int64_t offset, int64_t bytes);
  int64_t first_unwritten(int64_t offset, int64_t bytes) const;  // -1 when all were
  int64_t first_written(int64_t offset, int64_t bytes) const;    // -1 when none was

 private:
  struct Map;
  int64_t first_mark(int64_t offset, int64_t bytes, uint32_t flip) const;
  uint8_t* base_ = nullptr;
  uint8_t* written_ = nullptr;  // one bit a byte
  int64_t bytes_ = 0;
  std::unique_ptr<Map> map_;
};

}  // namespace hajax::emulator

#endif  // HAJAX_NATIVE_EMULATOR_CORE_GM_H_
