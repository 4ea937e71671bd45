// Flags and barriers by the numbers that steps carry.
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

// Of the pipe that the opcode runs on.
__aicore__ inline void Barrier(uint32_t opcode) {
  switch (opcode) {
#define OPCODE(number, name, pipe, meaning) \
  case number:                              \
    AscendC::PipeBarrier<PIPE_##pipe>();    \
    break;
#include "hajax/abi/opcodes.def"
#undef OPCODE
    default:
      break;
  }
}

// The scalar unit reads what MTE2 has brought, or lets it overwrite what has been read.
__aicore__ inline void AwaitFrame() {
  AscendC::SetFlag<HardEvent::MTE2_S>(EVENT_ID0);
  AscendC::WaitFlag<HardEvent::MTE2_S>(EVENT_ID0);
}
__aicore__ inline void ReleaseFrame() {
  AscendC::SetFlag<HardEvent::S_MTE2>(EVENT_ID0);
  AscendC::WaitFlag<HardEvent::S_MTE2>(EVENT_ID0);
}

}  // namespace hajax::ascend

#endif  // HAJAX_NATIVE_ASCEND_FLAGS_H_
