// TQue and TQueBind: buffers that travel between two pipes. EnQue sets the flag that DeQue waits for; FreeTensor sets
// the one that the next AllocTensor of the same buffer waits for.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_QUEUE_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_QUEUE_H_

#include "native/emulator/ascendc/common/pipe.h"

namespace AscendC {

template <TPosition src, TPosition dst, int32_t depth, auto mask = 0>
class TQueBind {
 public:
  static constexpr TPosition srcPosition = src;
  static constexpr TPosition dstPosition = dst;
  static constexpr TQueConfig config = GetTQueConfig(mask);
  static constexpr int32_t queDepth = depth;
  static constexpr HardEvent enQueEvt =
      hajax::ascendc::queue_event(GetPhyType(src), GetPhyType(dst), true, config.nd2nz);
  static constexpr HardEvent freeBufEvt =
      hajax::ascendc::queue_event(GetPhyType(src), GetPhyType(dst), false, config.nd2nz);
  static_assert(src != TPosition::MAX && dst != TPosition::MAX,
                "AscendC::TQue: no queue at this position: use A1, B1, C1, A2, B2, C2, CO1, CO2, VECIN or VECOUT; "
                "TBuf for VECCALC");
  static_assert(enQueEvt != HardEvent::M_FIX,
                "AscendC::TQue at CO1: fixpipe, through which 310B's results leave the cube: not emulated yet");
  static_assert(enQueEvt != HardEvent::MAX, "AscendC::TQueBind: " HAJAX_CHIP " has no path between these positions");
  static_assert(!config.scmBlockGroup && !config.enableStaticEvtId && !config.enableLoopQueue,
                "AscendC::TQueConfig: scmBlockGroup, enableStaticEvtId and enableLoopQueue: not emulated yet");

  TQueBind() = default;

  template <typename T>
  HAJAX_API LocalTensor<T> AllocTensor() {
    static_assert(depth != 0, "AscendC::TQue of depth 0: use AllocTensor(tensor)");
    return tensor_of<T>(AllocBuffer());
  }
  template <typename T>
  HAJAX_API void AllocTensor(LocalTensor<T>& tensor) {
    static_assert(depth == 0, "AscendC::TQue of depth other than 0: use AllocTensor()");
    tensor = tensor_of<T>(AllocBuffer());
  }
  template <typename T>
  HAJAX_API void FreeTensor(LocalTensor<T>& tensor) {
    FreeBuffer(tensor.GetBufferHandle());
  }
  HAJAX_API void FreeBuffer(TBufHandle handle);

  template <typename T>
  HAJAX_API bool EnQue(const LocalTensor<T>& tensor) {
    return enqueue(tensor.GetBufferHandle(), enQueEvt);
  }
  template <TPosition srcUserPos, TPosition dstUserPos, typename T>
  HAJAX_API bool EnQue(const LocalTensor<T>& tensor) {
    return enqueue(tensor.GetBufferHandle(), user_event<srcUserPos, dstUserPos>());
  }
  HAJAX_API bool EnQue(TBufHandle handle) { return enqueue(handle, enQueEvt); }

  template <typename T>
  HAJAX_API LocalTensor<T> DeQue() {
    static_assert(depth != 0, "AscendC::TQue of depth 0: use DeQue(tensor)");
    return tensor_of<T>(dequeue(enQueEvt));
  }
  template <TPosition srcUserPos, TPosition dstUserPos, typename T>
  HAJAX_API LocalTensor<T> DeQue() {
    static_assert(depth != 0, "AscendC::TQue of depth 0: use DeQue(tensor)");
    return tensor_of<T>(dequeue(user_event<srcUserPos, dstUserPos>()));
  }
  template <typename T>
  HAJAX_API void DeQue(LocalTensor<T>& tensor) {
    static_assert(depth == 0, "AscendC::TQue of depth other than 0: use DeQue()");
    TBufType* one = own("DeQue", tensor.GetBufferHandle());
    if (one->state != TBufState::ENQUE) wrong_state("DeQue", "an enqueued tensor", one);
    one->state = TBufState::DEQUE;
    hajax::ascendc::wait_event(enQueEvt, one->enQueEvtID);
  }
  HAJAX_API TBufHandle DeQue() { return reinterpret_cast<TBufHandle>(dequeue(enQueEvt)); }

  bool VacantInQue() const { return waiting_ < depth; }
  bool HasTensorInQue() const { return waiting_ > 0; }
  int32_t GetTensorCountInQue() const { return waiting_; }
  bool HasIdleBuffer() const { return out_ < number_; }
  template <typename T>
  TBufState GetState(const LocalTensor<T>& tensor) const {
    const auto* one = reinterpret_cast<const TBufType*>(tensor.GetBufferHandle());
    return one == nullptr ? TBufState::FREE : one->state;
  }

  // Gives the ids of all free buffers back; their flags are waited for.
  HAJAX_API void FreeAllEvent() {
    static_assert(depth != 0, "AscendC::TQue of depth 0 keeps its event ids");
    for (int i = 0; i < number_; ++i) take_free_flag(first_ + i);
  }

  // Called by TPipe::InitBuffer.
  void attach(TBufType* first, uint8_t number) {
    first_ = first;
    number_ = number;
    cursor_ = head_ = tail_ = waiting_ = out_ = 0;
  }

 private:
  static constexpr TPosition kPosition = GetPosition(src, dst);
  // These free their buffers with a barrier of V, which needs no id.
  static constexpr bool kFreesByBarrier =
      __NPU_ARCH__ == 2002 && (src == TPosition::C1 || (src == TPosition::CO2 && dst == TPosition::VECIN));

  template <TPosition from, TPosition to>
  static constexpr HardEvent user_event() {
    constexpr auto kInUb = [](TPosition p) {
      return p == TPosition::GM || p == TPosition::VECIN || p == TPosition::VECOUT || p == TPosition::VECCALC;
    };
    static_assert(kInUb(from) && kInUb(to) && !(from == TPosition::GM && to == TPosition::GM),
                  "AscendC::TQue: user positions: expected GM, VECIN, VECOUT or VECCALC, and not GM twice");
    return hajax::ascendc::queue_event(GetPhyType(from), GetPhyType(to), true, false);
  }

  HAJAX_API TBufType* AllocBuffer();
  HAJAX_API TBufType* own(const char* call, TBufHandle handle) const;
  HAJAX_API bool enqueue(TBufHandle handle, HardEvent event);
  HAJAX_API TBufType* dequeue(HardEvent event);
  HAJAX_API void take_free_flag(TBufType* one);

  [[noreturn]] HAJAX_API static void wrong_state(const char* call, const char* expected, const TBufType* one) {
    hajax::ascendc::kernel_fault(hajax::ascendc::Check::queue_state,
                                 hajax::ascendc::Text()
                                     << call << " of the queue at " << hajax::ascendc::name_of(kPosition)
                                     << ": expected " << expected << ", got one that is "
                                     << hajax::ascendc::name_of(one->state) << " (at byte " << one->address << ")");
  }

  template <typename T>
  static LocalTensor<T> tensor_of(TBufType* one) {
    constexpr auto kSpace = hajax::ascendc::space_of(kPosition);
    LocalTensor<T> tensor;
    tensor.address_.dataLen = one->dataLen;
    tensor.address_.bufferAddr = one->address;
    tensor.address_.bufferHandle = reinterpret_cast<TBufHandle>(one);
    tensor.address_.logicPos = static_cast<uint8_t>(kPosition);
    tensor.address_.absAddr = hajax::emulator::space_base(kSpace) + one->address;
    return tensor;
  }

  TBufType* queue_[depth < 1 ? 1 : depth] = {};
  TBufType* first_ = nullptr;
  int32_t number_ = 0;  // buffers
  int32_t cursor_ = 0;  // the buffer to try next
  int32_t head_ = 0;    // of queue_
  int32_t tail_ = 0;
  int32_t waiting_ = 0;  // enqueued
  int32_t out_ = 0;      // not free
};

template <TPosition src, TPosition dst, int32_t depth, auto mask>
HAJAX_API void TQueBind<src, dst, depth, mask>::take_free_flag(TBufType* one) {
  if (one->freeBufEvtID == INVALID_TEVENTID) return;
  hajax::ascendc::wait_event(freeBufEvt, one->freeBufEvtID);
  if constexpr (depth != 0 && freeBufEvt != HardEvent::MAX) {
    hajax::ascendc::current_pipe("AllocTensor").template ReleaseEventID<freeBufEvt>(one->freeBufEvtID);
    one->freeBufEvtID = INVALID_TEVENTID;
  }
}

template <TPosition src, TPosition dst, int32_t depth, auto mask>
HAJAX_API TBufType* TQueBind<src, dst, depth, mask>::AllocBuffer() {
  using hajax::ascendc::queue_fault;
  if (number_ == 0) queue_fault("AllocTensor", kPosition, "expected TPipe::InitBuffer before, got none");
  for (int32_t tried = 0; tried < number_; ++tried) {
    TBufType* one = first_ + cursor_;
    cursor_ = cursor_ + 1 == number_ ? 0 : cursor_ + 1;
    if (one->state != TBufState::FREE) continue;
    one->state = TBufState::OCCUPIED;
    ++out_;
    take_free_flag(one);
    hajax::emulator::tensor_allocated(hajax::ascendc::space_of(kPosition), one->address, one->dataLen);
    return one;
  }
  int held[4] = {};
  for (int32_t i = 0; i < number_; ++i) ++held[static_cast<int>(first_[i].state)];
  hajax::ascendc::kernel_fault(
      hajax::ascendc::Check::queue_state,
      hajax::ascendc::Text() << "AllocTensor of the queue at " << hajax::ascendc::name_of(kPosition)
                             << ": expected a free buffer among " << number_ << ", got none: " << held[1]
                             << " allocated, " << held[2] << " enqueued, " << held[3] << " dequeued and not freed");
}

template <TPosition src, TPosition dst, int32_t depth, auto mask>
HAJAX_API TBufType* TQueBind<src, dst, depth, mask>::own(const char* call, TBufHandle handle) const {
  auto* one = reinterpret_cast<TBufType*>(handle);
  if (one == nullptr || one < first_ || one >= first_ + number_) {
    hajax::ascendc::queue_fault(call, kPosition, "expected a tensor that this queue gave, got another");
  }
  return one;
}

template <TPosition src, TPosition dst, int32_t depth, auto mask>
HAJAX_API bool TQueBind<src, dst, depth, mask>::enqueue(TBufHandle handle, HardEvent event) {
  TBufType* one = own("EnQue", handle);
  if (one->state != TBufState::OCCUPIED && one->state != TBufState::DEQUE) {
    wrong_state("EnQue", "an allocated or dequeued tensor", one);
  }
  if constexpr (depth == 0) {
    hajax::ascendc::set_event(event, one->enQueEvtID);
  } else {
    if (waiting_ >= depth) {
      hajax::ascendc::expect_range("EnQue", "tensors in the queue, which its depth limits", waiting_ + 1, 0, depth);
    }
    one->enQueEvtID =
        event == HardEvent::V_V ? TEventID{0} : hajax::ascendc::current_pipe("EnQue").take_id("EnQue", event);
    hajax::ascendc::set_event(event, one->enQueEvtID);
    queue_[tail_] = one;
    tail_ = tail_ + 1 == depth ? 0 : tail_ + 1;
    ++waiting_;
  }
  one->userEnQueEvt = event;
  one->state = TBufState::ENQUE;
  return true;
}

template <TPosition src, TPosition dst, int32_t depth, auto mask>
HAJAX_API TBufType* TQueBind<src, dst, depth, mask>::dequeue(HardEvent event) {
  static_assert(depth != 0, "AscendC::TQue of depth 0: use DeQue(tensor)");
  if (waiting_ == 0) hajax::ascendc::queue_fault("DeQue", kPosition, "expected an EnQue before, got an empty queue");
  TBufType* one = queue_[head_];
  if (one->userEnQueEvt != event) {
    hajax::ascendc::queue_fault("DeQue", kPosition, "expected the positions that EnQue was given, got others");
  }
  head_ = head_ + 1 == depth ? 0 : head_ + 1;
  --waiting_;
  one->state = TBufState::DEQUE;
  hajax::ascendc::wait_event(event, one->enQueEvtID);
  if (event != HardEvent::V_V) hajax::ascendc::current_pipe("DeQue").give_id("DeQue", event, one->enQueEvtID);
  one->enQueEvtID = INVALID_TEVENTID;
  return one;
}

template <TPosition src, TPosition dst, int32_t depth, auto mask>
HAJAX_API void TQueBind<src, dst, depth, mask>::FreeBuffer(TBufHandle handle) {
  TBufType* one = own("FreeTensor", handle);
  if (one->state == TBufState::FREE) wrong_state("FreeTensor", "a tensor that is not free", one);
  if (one->state == TBufState::ENQUE) wrong_state("FreeTensor", "a tensor that DeQue gave", one);
  if constexpr (depth == 0) {
    hajax::ascendc::set_event(freeBufEvt, one->freeBufEvtID);
  } else if constexpr (kFreesByBarrier) {
    pipe_barrier(PIPE_V);
  } else if constexpr (freeBufEvt != HardEvent::MAX) {
    one->freeBufEvtID = hajax::ascendc::current_pipe("FreeTensor").take_id("FreeTensor", freeBufEvt);
    hajax::ascendc::set_event(freeBufEvt, one->freeBufEvtID);
  }
  one->state = TBufState::FREE;
  --out_;
  hajax::emulator::tensor_freed(hajax::ascendc::space_of(kPosition), one->address, one->dataLen);
}

template <TPosition position, int32_t depth, auto mask = 0>
class TQue : public TQueBind<GetBufferLogicPos(position, true), GetBufferLogicPos(position, false), depth, mask> {};

}  // namespace AscendC

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_QUEUE_H_
