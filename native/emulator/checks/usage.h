// How much of each memory is in use: 32-byte blocks that were written and whose tensor was not freed since.
#ifndef HAJAX_NATIVE_EMULATOR_CHECKS_USAGE_H_
#define HAJAX_NATIVE_EMULATOR_CHECKS_USAGE_H_

#include <stdint.h>

#include <vector>

#include "native/emulator/core/lists.h"

namespace hajax::emulator {

class Usage {
 public:
  explicit Usage(const int64_t* sizes);
  void touch(Space space, int64_t offset, int64_t bytes);
  void free(Space space, int64_t offset, int64_t bytes);
  int64_t peak(Space space) const { return peak_[static_cast<int>(space)]; }  // bytes

 private:
  std::vector<uint64_t> used_[kSpaces];  // a bit a block
  int64_t now_[kSpaces] = {};
  int64_t peak_[kSpaces] = {};
};

}  // namespace hajax::emulator

#endif  // HAJAX_NATIVE_EMULATOR_CHECKS_USAGE_H_
