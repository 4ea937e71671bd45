// What TPipe keeps of every buffer and of event ids, and what the emulator checks of them.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_PIPE_STATE_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_PIPE_STATE_H_

#include "native/emulator/ascendc/common/event.h"
#include "native/emulator/ascendc/common/tensor.h"

namespace AscendC {

enum class TBufState : uint8_t { FREE = 0, OCCUPIED, ENQUE, DEQUE };

// One buffer of a queue, or the memory of a TBuf.
struct TBufType {
  TBufState state = TBufState::FREE;
  HardEvent freeBufEvt = HardEvent::MAX;
  HardEvent userEnQueEvt = HardEvent::MAX;  // of the EnQue that it waits in
  TEventID enQueEvtID = INVALID_TEVENTID;
  TEventID freeBufEvtID = INVALID_TEVENTID;
  TPosition position = TPosition::MAX;
  bool managed = false;  // by a queue, which must get back what it gave
  uint32_t address = 0;
  uint32_t dataLen = 0;
  TTagType usertag = -1;
};

struct TQueConfig {
  bool nd2nz = false;
  bool nz2nd = false;
  bool scmBlockGroup = false;
  uint32_t bufferLen = 0;
  uint32_t bufferNumber = 0;
  uint32_t consumerSize = 0;
  TPosition consumer[8] = {};
  bool enableStaticEvtId = false;
  bool enableLoopQueue = false;
};

constexpr TQueConfig GetTQueConfig(int32_t mask) {
  TQueConfig config;
  config.nd2nz = (mask & 1) != 0;
  config.nz2nd = (mask & 2) != 0;
  config.scmBlockGroup = (mask & 4) != 0;
  return config;
}
constexpr TQueConfig GetTQueConfig(const TQueConfig* config) { return *config; }

}  // namespace AscendC

namespace hajax::ascendc {

using AscendC::TBufState;
using AscendC::TBufType;

constexpr const char* name_of(TBufState state) {
  constexpr const char* kNames[] = {"free", "allocated", "enqueued", "dequeued"};
  return kNames[static_cast<int>(state)];
}

HAJAX_API void queue_fault(const char* call, TPosition position, const char* text) {
  kernel_fault(Check::queue_state, Text() << call << " of a queue at " << name_of(position) << ": " << text);
}

// Memory of one kind: handed out from its start on.
HAJAX_API uint32_t take_memory(uint32_t* used, Hardware hardware, TPosition position, int64_t count, int64_t length) {
  const auto space = space_of(hardware);
  const int64_t size = hajax::emulator::space_size(space);
  const int64_t rounded = (length + 31) / 32 * 32;
  if (length < 1 || count < 1 || *used + count * rounded > size) {
    kernel_fault(Check::limit, Text() << "TPipe::InitBuffer at " << name_of(position) << ": " << count << " x "
                                      << length << " bytes: expected at least 1 and at most the " << size - *used
                                      << " bytes that are left of " << name_of(hardware) << ", got " << count * rounded
                                      << " (" << *used << " of " << size << " used before)");
  }
  const uint32_t start = *used;
  *used += static_cast<uint32_t>(count * rounded);
  // A new buffer holds nothing, whatever lay there before.
  for (int64_t i = 0; i < count; ++i) {
    hajax::emulator::buffer_defined(space, start + i * rounded, rounded);
    hajax::emulator::tensor_allocated(space, start + i * rounded, rounded);
  }
  return start;
}

// Ids of every pair of pipes, taken in ascending order.
class EventIds {
 public:
  HAJAX_API AscendC::TEventID first_free(const char* call, HardEvent event) const {
    for (int id = 0; id < AscendC::QUE_MAX_EVENT; ++id) {
      if ((taken_[index(event)] >> id & 1) == 0) return static_cast<AscendC::TEventID>(id);
    }
    kernel_fault(Check::queue_state, Text()
                                         << call << ": expected a free event id of " << name_of(event)
                                         << ", got none: all " << AscendC::QUE_MAX_EVENT
                                         << " are taken; release some, or use fewer queue buffers between these pipes");
  }
  HAJAX_API AscendC::TEventID take(const char* call, HardEvent event) {
    const AscendC::TEventID id = first_free(call, event);
    taken_[index(event)] = static_cast<uint8_t>(taken_[index(event)] | 1 << id);
    return id;
  }
  HAJAX_API void give_back(const char* call, HardEvent event, AscendC::TEventID id) {
    expect_range(call, "event id", id, 0, AscendC::QUE_MAX_EVENT - 1);
    if ((taken_[index(event)] >> id & 1) == 0) {
      kernel_fault(Check::queue_state, Text() << call << ": event id " << id << " of " << name_of(event)
                                              << ": expected one that AllocEventID gave, got one that is free");
    }
    taken_[index(event)] = static_cast<uint8_t>(taken_[index(event)] & ~(1 << id));
  }
  void clear() {
    for (auto& taken : taken_) taken = 0;
  }

 private:
  static int index(HardEvent event) { return static_cast<int>(event); }
  uint8_t taken_[static_cast<int>(HardEvent::MAX)] = {};
};

}  // namespace hajax::ascendc

namespace AscendC {

template <typename T>
void LocalTensor<T>::SetUserTag(TTagType tag) const {
  if (address_.bufferHandle == nullptr) {
    hajax::ascendc::kernel_fault(hajax::ascendc::Check::queue_state,
                                 "LocalTensor::SetUserTag: expected a tensor of a queue or TBuf, got one of neither");
  }
  reinterpret_cast<TBufType*>(address_.bufferHandle)->usertag = tag;
}

template <typename T>
TTagType LocalTensor<T>::GetUserTag() const {
  if (address_.bufferHandle == nullptr) {
    hajax::ascendc::kernel_fault(hajax::ascendc::Check::queue_state,
                                 "LocalTensor::GetUserTag: expected a tensor of a queue or TBuf, got one of neither");
  }
  return reinterpret_cast<const TBufType*>(address_.bufferHandle)->usertag;
}

}  // namespace AscendC

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_PIPE_STATE_H_
