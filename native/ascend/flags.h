// Flags and barriers by the numbers that steps carry: known while the kernel is compiled, or only when it runs.
#ifndef HAJAX_NATIVE_ASCEND_FLAGS_H_
#define HAJAX_NATIVE_ASCEND_FLAGS_H_

#include "native/ascend/frame.h"

namespace hajax::ascend {

constexpr uint32_t kEventBits = 3;
constexpr uint32_t kEventMask = 7;

__aicore__ inline void Wait(uint32_t flag) {
  const auto id = static_cast<event_t>(flag & kEventMask);
  switch (flag >> kEventBits) {
#define FLAG(number, name, from, to)        \
  case number:                              \
    AscendC::WaitFlag<HardEvent::name>(id); \
    break;
#include "hajax/abi/flags.def"
#undef FLAG
    default:
      break;
  }
}

__aicore__ inline void Set(uint32_t flag) {
  const auto id = static_cast<event_t>(flag & kEventMask);
  switch (flag >> kEventBits) {
#define FLAG(number, name, from, to)       \
  case number:                             \
    AscendC::SetFlag<HardEvent::name>(id); \
    break;
#include "hajax/abi/flags.def"
#undef FLAG
    default:
      break;
  }
}

// Up to four flags in the bytes of a word; 0 is none.
__aicore__ inline void WaitAll(uint32_t flags) {
  for (; flags != 0; flags >>= 8) Wait(flags & 0xff);
}
__aicore__ inline void SetAll(uint32_t flags) {
  for (; flags != 0; flags >>= 8) Set(flags & 0xff);
}

template <uint32_t flags>
__aicore__ inline void WaitAll() {
  [[maybe_unused]] constexpr auto id = static_cast<event_t>(flags & kEventMask);
#define FLAG(number, name, from, to)                        \
  if constexpr ((flags & 0xff) >> kEventBits == (number)) { \
    AscendC::WaitFlag<HardEvent::name>(id);                 \
  }
#include "hajax/abi/flags.def"
#undef FLAG
  if constexpr (flags >> 8 != 0) WaitAll<(flags >> 8)>();
}

template <uint32_t flags>
__aicore__ inline void SetAll() {
  [[maybe_unused]] constexpr auto id = static_cast<event_t>(flags & kEventMask);
#define FLAG(number, name, from, to)                        \
  if constexpr ((flags & 0xff) >> kEventBits == (number)) { \
    AscendC::SetFlag<HardEvent::name>(id);                  \
  }
#include "hajax/abi/flags.def"
#undef FLAG
  if constexpr (flags >> 8 != 0) SetAll<(flags >> 8)>();
}

// Of the pipe that the opcode runs on.
template <uint32_t opcode>
__aicore__ inline void Barrier() {
#define OPCODE(number, name, pipe, meaning) \
  if constexpr (opcode == (number)) {       \
    AscendC::PipeBarrier<PIPE_##pipe>();    \
  }
#include "hajax/abi/opcodes.def"
#undef OPCODE
}

}  // namespace hajax::ascend

#endif  // HAJAX_NATIVE_ASCEND_FLAGS_H_
