// TBuf: memory for temporaries, the kernel's own from InitBuffer to the end. LocalMemAllocator: the same without a
// TPipe.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_BUFFER_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_BUFFER_H_

#include "native/emulator/ascendc/common/pipe.h"

namespace AscendC {

template <TPosition position = TPosition::LCM>
class TBuf {
 public:
  TBuf() = default;

  template <typename T>
  HAJAX_API LocalTensor<T> Get() {
    return GetWithOffset<T>(static_cast<uint32_t>(length_ / sizeof(T)), 0);
  }
  template <typename T>
  HAJAX_API LocalTensor<T> Get(uint32_t len) {
    hajax::ascendc::expect_multiple("TBuf::Get", "bytes", static_cast<int64_t>(len * sizeof(T)), ONE_BLK_SIZE,
                                    "Take whole blocks of 32 bytes");
    return GetWithOffset<T>(len, 0);
  }
  // `size` elements from byte `bufOffset` on.
  template <typename T>
  HAJAX_API LocalTensor<T> GetWithOffset(uint32_t size, uint32_t bufOffset) {
    if (record_ == nullptr) {
      hajax::ascendc::kernel_fault(hajax::ascendc::Check::queue_state,
                                   hajax::ascendc::Text() << "TBuf at " << hajax::ascendc::name_of(position)
                                                          << ": expected TPipe::InitBuffer before, got none");
    }
    const int64_t bytes = static_cast<int64_t>(size * sizeof(T));
    hajax::ascendc::expect_range("TBuf::Get", "end in bytes, of the buffer's length", bufOffset + bytes, 1, length_);
    LocalTensor<T> tensor;
    tensor.address_.dataLen = static_cast<uint32_t>(bytes);
    tensor.address_.bufferAddr = record_->address + bufOffset;
    tensor.address_.bufferHandle = reinterpret_cast<TBufHandle>(record_);
    tensor.address_.logicPos = static_cast<uint8_t>(position);
    tensor.address_.absAddr =
        hajax::emulator::space_base(hajax::ascendc::space_of(position)) + tensor.address_.bufferAddr;
    return tensor;
  }

  // A TBuf may stand where a queue does; it orders nothing.
  template <typename T>
  HAJAX_API LocalTensor<T> AllocTensor() {
    return Get<T>();
  }
  template <typename T>
  HAJAX_API LocalTensor<T> DeQue() {
    return Get<T>();
  }
  template <typename T>
  void EnQue(const LocalTensor<T>&) {}
  template <typename T>
  void FreeTensor(LocalTensor<T>&) {}

  // Called by TPipe::InitBuffer.
  void attach(TBufType* record, uint32_t length) {
    record_ = record;
    length_ = length;
  }

 private:
  TBufType* record_ = nullptr;
  uint32_t length_ = 0;
};

#if __NPU_ARCH__ == 2002
// Tensors one after the other from the start of a memory; nothing is ever given back.
template <Hardware hardware = Hardware::UB>
class LocalMemAllocator {
  static_assert(hajax::ascendc::has_memory(hardware) && hardware != Hardware::GM,
                "AscendC::LocalMemAllocator: not a memory of " HAJAX_CHIP);

 public:
  LocalMemAllocator() = default;
  uint32_t GetCurAddr() const { return head_; }

  template <TPosition position, class T, uint32_t tileSize>
  HAJAX_API LocalTensor<T> Alloc() {
    return Alloc<position, T>(tileSize);
  }
  template <TPosition position, class T>
  HAJAX_API LocalTensor<T> Alloc(uint32_t tileSize) {
    static_assert(GetPhyType(position) == hardware, "AscendC::LocalMemAllocator: the position lies in another memory");
    const LocalTensor<T> tensor(position, head_, tileSize);
    head_ += static_cast<uint32_t>((tileSize * sizeof(T) + 31) / 32 * 32);
    return tensor;
  }
  template <class T, uint32_t tileSize>
  HAJAX_API LocalTensor<T> Alloc() {
    return Alloc<kDefault, T>(tileSize);
  }
  template <class T>
  HAJAX_API LocalTensor<T> Alloc(uint32_t tileSize) {
    return Alloc<kDefault, T>(tileSize);
  }

 private:
  static constexpr TPosition kDefault = hardware == Hardware::UB    ? TPosition::VECCALC
                                        : hardware == Hardware::L1  ? TPosition::A1
                                        : hardware == Hardware::L0A ? TPosition::A2
                                        : hardware == Hardware::L0B ? TPosition::B2
                                                                    : TPosition::CO1;
  uint32_t head_ = 0;
};
#else
template <Hardware hardware = Hardware::UB>
class LocalMemAllocator {
  static_assert(hajax::ascendc::never<std::integral_constant<Hardware, hardware>>,
                "AscendC::LocalMemAllocator: not on " HAJAX_CHIP ": use TPipe");
};
#endif

template <TPosition position, uint32_t buffers = 4>
class TBufPool {
  static_assert(hajax::ascendc::never<std::integral_constant<TPosition, position>>,
                "AscendC::TBufPool: not emulated yet: use TPipe::Reset between phases");
};

}  // namespace AscendC

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_BUFFER_H_
