// The top of UB that the chip's API keeps for its own temporaries. Kernels cannot use it; calls open it while they
// work.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_M200_RESERVE_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_M200_RESERVE_H_

#include "native/emulator/ascendc/common/pipe.h"

namespace hajax::ascendc {

class Reserve {
 public:
  HAJAX_API Reserve() { hajax::emulator::open_reserve(true); }
  // Also when an error leaves the call.
  HAJAX_API ~Reserve() { hajax::emulator::open_reserve(false); }
  Reserve(const Reserve&) = delete;
  Reserve& operator=(const Reserve&) = delete;

  template <typename T>
  HAJAX_API T* at(int64_t bytes) const {
    return reinterpret_cast<T*>(hajax::emulator::space_base(Space::UB) + hajax::emulator::reserved_base(Space::UB) +
                                bytes);
  }
};

}  // namespace hajax::ascendc

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_M200_RESERVE_H_
