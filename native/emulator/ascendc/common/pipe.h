// TPipe: gives memory to queues and buffers, and event ids to whoever synchronises. When it ends, every tensor must
// have come back.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_PIPE_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_PIPE_H_

#include <exception>

#include "native/emulator/ascendc/common/pipe_state.h"
#include "native/emulator/instructions/move.h"
#include "native/emulator/instructions/scalar.h"

namespace AscendC {

template <TPosition position>
class TBuf;

class TPipe {
 public:
  HAJAX_API TPipe();
  HAJAX_API ~TPipe() noexcept(false);  // ends the kernel with an error when a tensor is missing
  TPipe(const TPipe&) = delete;
  TPipe& operator=(const TPipe&) = delete;

  HAJAX_API void Init();

  // `num` buffers of `len` bytes, each rounded up to 32.
  template <class T>
  HAJAX_API bool InitBuffer(T& que, uint32_t num, uint32_t len);
  template <TPosition position>
  HAJAX_API bool InitBuffer(TBuf<position>& buf, uint32_t len);

  template <HardEvent event>
  HAJAX_API TEventID AllocEventID() {
    return ids_.take("TPipe::AllocEventID", event);
  }
  template <HardEvent event>
  HAJAX_API void ReleaseEventID(TEventID id) {
    ids_.give_back("TPipe::ReleaseEventID", event, id);
  }
  // An id for a SetFlag whose WaitFlag follows at once; it stays free.
  template <HardEvent event>
  HAJAX_API TEventID FetchEventID() {
    return ids_.first_free("TPipe::FetchEventID", event);
  }
  HAJAX_API TEventID FetchEventID(HardEvent event) { return ids_.first_free("TPipe::FetchEventID", event); }

  // The same for events that are known at run time only.
  HAJAX_API TEventID take_id(const char* call, HardEvent event) { return ids_.take(call, event); }
  HAJAX_API void give_id(const char* call, HardEvent event, TEventID id) { ids_.give_back(call, event, id); }

  uint8_t* GetBaseAddr(int8_t logicPos) const {
    return hajax::emulator::space_base(hajax::ascendc::space_of(static_cast<TPosition>(logicPos)));
  }
  template <TPosition position>
  uint64_t GetQueueEndAddress() const {
    return used_[static_cast<int>(GetPhyType(position))];
  }

  HAJAX_API void Destroy();
  HAJAX_API void DestroyWithoutPipeAll();
  HAJAX_API void Reset();

#define HAJAX_NOT_YET(name)                                                                   \
  template <typename... Arguments>                                                            \
  void name(const Arguments&...) {                                                            \
    static_assert(hajax::ascendc::never<Arguments...>, "TPipe::" #name ": not emulated yet"); \
  }
  HAJAX_NOT_YET(InitBufPool)
  HAJAX_NOT_YET(InitSpmBuffer)
  HAJAX_NOT_YET(WriteSpmBuffer)
  HAJAX_NOT_YET(ReadSpmBuffer)
#undef HAJAX_NOT_YET

 private:
  static constexpr int kBuffers = static_cast<int>(QBUF_MAX_LEN);

  HAJAX_API TBufType* take_buffers(uint32_t num, TPosition position, bool managed);
  HAJAX_API void return_buffers(const char* when);
  HAJAX_API void release_cube_flags();

  TBufType buffers_[kBuffers];
  int count_ = 0;
  uint32_t used_[static_cast<int>(Hardware::MAX)] = {};
  hajax::ascendc::EventIds ids_;
  bool destroyed_ = false;
};

}  // namespace AscendC

// The pipe that was made last on this core.
inline thread_local AscendC::TPipe* g_tPipePtr = nullptr;
inline AscendC::TPipe* GetTPipePtr() { return g_tPipePtr; }

namespace hajax::ascendc {

HAJAX_API AscendC::TPipe& current_pipe(const char* call) {
  if (g_tPipePtr == nullptr) {
    kernel_fault(Check::queue_state, Text()
                                         << call << ": expected a TPipe to exist, got none: make one before this call");
  }
  return *g_tPipePtr;
}

// SetFlag and WaitFlag at once: the second pipe goes on when the first has come here.
HAJAX_API void order(const char* call, HardEvent event) {
  const auto id = current_pipe(call).FetchEventID(event);
  set_event(event, id);
  wait_event(event, id);
}

}  // namespace hajax::ascendc

namespace AscendC {

HAJAX_API TPipe::TPipe() { Init(); }

HAJAX_API TPipe::~TPipe() noexcept(false) {
  // An error that is on its way already must not be replaced by one that it caused.
  if (!destroyed_ && std::uncaught_exceptions() == 0) Destroy();
  if (g_tPipePtr == this) g_tPipePtr = nullptr;
}

HAJAX_API void TPipe::Init() {
  set_atomic_none();
  count_ = 0;
  for (auto& used : used_) used = 0;
  ids_.clear();
#if __NPU_ARCH__ == 3002
  // As on the device: three flags of M_MTE1 stand ready for the matrix library.
  set_padding(0);
  for (int i = 0; i < 3; ++i) hajax::ascendc::set_event(HardEvent::M_MTE1, AllocEventID<HardEvent::M_MTE1>());
#endif
  g_tPipePtr = this;
  destroyed_ = false;
}

HAJAX_API void TPipe::release_cube_flags() {
#if __NPU_ARCH__ == 3002
  for (TEventID id = 0; id < 3; ++id) {
    hajax::ascendc::wait_event(HardEvent::M_MTE1, id);
    ReleaseEventID<HardEvent::M_MTE1>(id);
  }
#endif
}

HAJAX_API TBufType* TPipe::take_buffers(uint32_t num, TPosition position, bool managed) {
  hajax::ascendc::expect_range("TPipe::InitBuffer", "buffers of this TPipe in all", int64_t{count_} + num, 1, kBuffers);
  TBufType* first = buffers_ + count_;
  for (uint32_t i = 0; i < num; ++i) {
    first[i] = TBufType();
    first[i].position = position;
    first[i].managed = managed;
  }
  count_ += static_cast<int>(num);
  return first;
}

template <class T>
HAJAX_API bool TPipe::InitBuffer(T& que, uint32_t num, uint32_t len) {
  using hajax::ascendc::expect_range;
  constexpr TPosition kPosition = GetPosition(T::srcPosition, T::dstPosition);
  constexpr Hardware kHardware = GetPhyType(kPosition);
  static_assert(hajax::ascendc::has_memory(kHardware) && kHardware != Hardware::GM,
                "TPipe::InitBuffer: the queue's position has no emulated memory on " HAJAX_CHIP);
  expect_range("TPipe::InitBuffer", "num", num, 1, kBuffers);
  if (T::config.bufferNumber != 0) {
    expect_range("TPipe::InitBuffer", "num of TQueConfig", num, T::config.bufferNumber, T::config.bufferNumber);
  }
  if (T::config.bufferLen != 0) {
    expect_range("TPipe::InitBuffer", "len of TQueConfig", len, T::config.bufferLen, T::config.bufferLen);
  }
  uint32_t address = hajax::ascendc::take_memory(&used_[static_cast<int>(kHardware)], kHardware, kPosition, num, len);
  const uint32_t rounded = (len + 31) / 32 * 32;
  TBufType* first = take_buffers(num, kPosition, true);
  for (uint32_t i = 0; i < num; ++i) {
    first[i].freeBufEvt = T::freeBufEvt;
    first[i].address = address;
    first[i].dataLen = rounded;
    if constexpr (T::queDepth == 0) {
      first[i].enQueEvtID = AllocEventID<T::enQueEvt>();
      first[i].freeBufEvtID = AllocEventID<T::freeBufEvt>();
      hajax::ascendc::set_event(T::freeBufEvt, first[i].freeBufEvtID);
    }
    address += rounded;
  }
  que.attach(first, static_cast<uint8_t>(num));
  return true;
}

template <TPosition position>
HAJAX_API bool TPipe::InitBuffer(TBuf<position>& buf, uint32_t len) {
  constexpr Hardware kHardware = GetPhyType(position);
  static_assert(hajax::ascendc::has_memory(kHardware) && kHardware != Hardware::GM,
                "TPipe::InitBuffer: the TBuf's position has no emulated memory on " HAJAX_CHIP);
  TBufType* record = take_buffers(1, position, false);
  record->address = hajax::ascendc::take_memory(&used_[static_cast<int>(kHardware)], kHardware, position, 1, len);
  record->dataLen = (len + 31) / 32 * 32;
  buf.attach(record, record->dataLen);
  return true;
}

HAJAX_API void TPipe::return_buffers(const char* when) {
  for (int i = 0; i < count_; ++i) {
    TBufType& one = buffers_[i];
    if (!one.managed) continue;
    if (one.state != TBufState::FREE) {
      hajax::ascendc::kernel_fault(hajax::ascendc::Check::leaked_tensor,
                                   hajax::ascendc::Text()
                                       << when << ": the queue at " << hajax::ascendc::name_of(one.position)
                                       << ": expected every tensor back, got the one at byte " << one.address << " ("
                                       << one.dataLen << " bytes) still " << hajax::ascendc::name_of(one.state));
    }
    if (one.freeBufEvtID != INVALID_TEVENTID) hajax::ascendc::wait_event(one.freeBufEvt, one.freeBufEvtID);
    one.freeBufEvtID = INVALID_TEVENTID;
    // The memory may be used again, by another pipe or by hand.
    hajax::emulator::tensor_allocated(hajax::ascendc::space_of(one.position), one.address, one.dataLen);
  }
  count_ = 0;
  hajax::emulator::buffers_cleared();
}

HAJAX_API void TPipe::DestroyWithoutPipeAll() {
  destroyed_ = true;
  return_buffers("TPipe::Destroy");
  release_cube_flags();
}

HAJAX_API void TPipe::Destroy() {
  DestroyWithoutPipeAll();
  pipe_barrier(PIPE_ALL);
#if __NPU_ARCH__ == 2002
  dcci(static_cast<__gm__ void*>(nullptr), static_cast<uint64_t>(CacheLine::ENTIRE_DATA_CACHE));
#endif
}

HAJAX_API void TPipe::Reset() {
  return_buffers("TPipe::Reset");
  release_cube_flags();
  Init();
}

}  // namespace AscendC

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_PIPE_H_
