// GlobalTensor and LocalTensor: typed views of GM and of a core's memories. Reading or writing single elements is the
// scalar unit's work: checked, ordered and charged as such.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_TENSOR_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_TENSOR_H_

#include "native/emulator/ascendc/common/positions.h"
#include "native/emulator/ascendc/common/std.h"

namespace AscendC {

struct ShapeInfo {
  ShapeInfo() = default;
  ShapeInfo(uint8_t dims, const uint32_t inputShape[], DataFormat format = DataFormat::ND)
      : ShapeInfo(dims, inputShape, dims, inputShape, format) {}
  ShapeInfo(uint8_t dims, const uint32_t inputShape[], uint8_t originalDims, const uint32_t inputOriginalShape[],
            DataFormat format)
      : shapeDim(dims), originalShapeDim(originalDims), dataFormat(format) {
    hajax::ascendc::expect_range("ShapeInfo", "shapeDim", dims, 0, K_MAX_SHAPE_DIM);
    hajax::ascendc::expect_range("ShapeInfo", "originalShapeDim", originalDims, 0, K_MAX_SHAPE_DIM);
    for (int i = 0; i < dims; ++i) shape[i] = inputShape[i];
    for (int i = 0; i < originalDims; ++i) originalShape[i] = inputOriginalShape[i];
  }

  uint8_t shapeDim = 0;
  uint8_t originalShapeDim = 0;
  uint32_t shape[K_MAX_SHAPE_DIM] = {};
  uint32_t originalShape[K_MAX_SHAPE_DIM] = {};
  DataFormat dataFormat = DataFormat::ND;
};

inline uint64_t GetShapeSize(const ShapeInfo& shapeInfo) {
  uint64_t size = 1;
  for (int i = 0; i < shapeInfo.shapeDim; ++i) size *= shapeInfo.shape[i];
  return size;
}

struct TBuffAddr {
  uint32_t dataLen = 0;               // bytes
  uint32_t bufferAddr = 0;            // offset in its memory
  TBufHandle bufferHandle = nullptr;  // the queue's or buffer's record, if it came from one
  uint8_t logicPos = static_cast<uint8_t>(TPosition::VECCALC);
  uint8_t* absAddr = nullptr;  // host address
};

}  // namespace AscendC

namespace hajax::ascendc {

// What operator() gives: an element that is read or written when it is used.
template <typename T>
class Element {
 public:
  Element(Space space, T* at) : space_(space), at_(at) {}
  Element(const Element&) = default;
  HAJAX_API operator T() const {  // NOLINT: stands in for a reference
    hajax::emulator::scalar_read(space_, at_, sizeof(T));
    return *at_;
  }
  HAJAX_API Element& operator=(T value) {
    hajax::emulator::scalar_write(space_, at_, sizeof(T));
    *at_ = value;
    return *this;
  }
  HAJAX_API Element& operator=(const Element& other) { return *this = static_cast<T>(other); }

 private:
  Space space_;
  T* at_;
};

}  // namespace hajax::ascendc

namespace AscendC {

template <typename T>
class SymbolOverrideAdd;
template <typename T>
class SymbolOverrideSub;
template <typename T>
class SymbolOverrideMul;
template <typename T>
class SymbolOverrideDiv;
template <typename T>
class SymbolOverrideOr;
template <typename T>
class SymbolOverrideAnd;
template <typename T>
class SymbolOverrideCompare;

// Types that no tensor may have.
#define HAJAX_CHECK_ELEMENT(T)                                                                                   \
  static_assert(!std::is_same_v<T, ::bfloat16_t>,                                                                \
                "bfloat16_t: " HAJAX_CHIP " has no emulated bf16: use half, or float for what needs its range"); \
  static_assert(!std::is_same_v<T, AscendC::int4b_t>, "int4b_t: not emulated yet")

template <typename T>
class LocalTensor {
  HAJAX_CHECK_ELEMENT(T);

 public:
  using PrimType = T;

  LocalTensor() = default;
  // `tileSize` elements from byte `addr` of the position's memory, outside of any pipe's management.
  LocalTensor(TPosition position, uint32_t addr, uint32_t tileSize) {
    using hajax::ascendc::Check;
    const Hardware hardware = GetPhyType(position);
    if (!hajax::ascendc::has_memory(hardware) || hardware == Hardware::GM) {
      hajax::ascendc::kernel_fault(
          Check::unsupported, hajax::ascendc::Text() << "LocalTensor: position: expected one in a core's memory, got "
                                                     << hajax::ascendc::name_of(position));
    }
    const auto space = hajax::ascendc::space_of(hardware);
    const int64_t room = hajax::emulator::space_size(space) - addr;
    const auto most = room < 0 ? int64_t{0} : room / static_cast<int64_t>(sizeof(T));
    hajax::ascendc::expect_multiple("LocalTensor", "addr", addr, ONE_BLK_SIZE, "Start at a multiple of 32 bytes");
    hajax::ascendc::expect_range("LocalTensor", "tileSize in elements from addr on", tileSize, 1, most);
    address_.dataLen = static_cast<uint32_t>(tileSize * sizeof(T));
    address_.bufferAddr = addr;
    address_.logicPos = static_cast<uint8_t>(position);
    address_.absAddr = hajax::emulator::space_base(space) + addr;
  }

  uint64_t GetPhyAddr() const { return reinterpret_cast<uint64_t>(address_.absAddr); }
  uint64_t GetPhyAddr(uint32_t offset) const { return GetPhyAddr() + offset * sizeof(T); }

  HAJAX_API T GetValue(uint32_t offset) const { return (*this)(offset); }
  template <typename S>
  HAJAX_API void SetValue(uint32_t index, S value) const {
    (*this)(index) = static_cast<T>(value);
  }
  HAJAX_API hajax::ascendc::Element<T> operator()(uint32_t offset) const {
    expect_inside("element", offset);
    return {space(), reinterpret_cast<T*>(address_.absAddr) + offset};
  }

  LocalTensor operator[](uint32_t offset) const {
    expect_inside("offset", offset);
    LocalTensor result = *this;
    const auto bytes = static_cast<uint32_t>(offset * sizeof(T));
    result.address_.dataLen -= bytes;
    result.address_.bufferAddr += bytes;
    result.address_.absAddr += bytes;
    return result;
  }

  template <typename U>
  LocalTensor<U> ReinterpretCast() const {
    LocalTensor<U> result;
    result.address_ = address_;
    return result;
  }
  template <typename S>
  void SetAddrWithOffset(LocalTensor<S>& src, uint32_t offset) {
    address_ = src[offset].address_;
  }

  int32_t GetPosition() const { return address_.logicPos; }
  void SetSize(uint32_t size) {
    const int64_t room = hajax::emulator::space_size(space()) - address_.bufferAddr;
    hajax::ascendc::expect_range("LocalTensor::SetSize", "bytes", static_cast<int64_t>(size * sizeof(T)), 0, room);
    address_.dataLen = static_cast<uint32_t>(size * sizeof(T));
  }
  uint32_t GetSize() const { return static_cast<uint32_t>(address_.dataLen / sizeof(T)); }
  uint32_t GetLength() const { return address_.dataLen; }
  void SetBufferLen(uint32_t dataLen) { address_.dataLen = dataLen; }
  void SetUserTag(TTagType tag) const;  // of a tensor that came from a queue
  TTagType GetUserTag() const;
  void SetShapeInfo(const ShapeInfo& shapeInfo) { shapeInfo_ = shapeInfo; }
  ShapeInfo GetShapeInfo() const { return shapeInfo_; }
  void SetAddr(const TBuffAddr& address) { address_ = address; }
  TBufHandle GetBufferHandle() const { return address_.bufferHandle; }

  // dst = a + b over dst's whole length.
  HAJAX_API void operator=(const SymbolOverrideAdd<T>& expression) { expression.Process(*this); }
  HAJAX_API void operator=(const SymbolOverrideSub<T>& expression) { expression.Process(*this); }
  HAJAX_API void operator=(const SymbolOverrideMul<T>& expression) { expression.Process(*this); }
  HAJAX_API void operator=(const SymbolOverrideDiv<T>& expression) { expression.Process(*this); }
  HAJAX_API void operator=(const SymbolOverrideOr<T>& expression) { expression.Process(*this); }
  HAJAX_API void operator=(const SymbolOverrideAnd<T>& expression) { expression.Process(*this); }
  void operator=(const SymbolOverrideCompare<float>& expression);
  void operator=(const SymbolOverrideCompare<half>& expression);
  SymbolOverrideAdd<T> operator+(const LocalTensor& src1) const { return {*this, src1}; }
  SymbolOverrideSub<T> operator-(const LocalTensor& src1) const { return {*this, src1}; }
  SymbolOverrideMul<T> operator*(const LocalTensor& src1) const { return {*this, src1}; }
  SymbolOverrideDiv<T> operator/(const LocalTensor& src1) const { return {*this, src1}; }
  SymbolOverrideOr<T> operator|(const LocalTensor& src1) const { return {*this, src1}; }
  SymbolOverrideAnd<T> operator&(const LocalTensor& src1) const { return {*this, src1}; }
  SymbolOverrideCompare<T> operator<(const LocalTensor& src1) const { return {*this, src1, CMPMODE::LT}; }
  SymbolOverrideCompare<T> operator>(const LocalTensor& src1) const { return {*this, src1, CMPMODE::GT}; }
  SymbolOverrideCompare<T> operator!=(const LocalTensor& src1) const { return {*this, src1, CMPMODE::NE}; }
  SymbolOverrideCompare<T> operator==(const LocalTensor& src1) const { return {*this, src1, CMPMODE::EQ}; }
  SymbolOverrideCompare<T> operator<=(const LocalTensor& src1) const { return {*this, src1, CMPMODE::LE}; }
  SymbolOverrideCompare<T> operator>=(const LocalTensor& src1) const { return {*this, src1, CMPMODE::GE}; }

  TBuffAddr address_;
  ShapeInfo shapeInfo_;

 private:
  // Of a tensor whose length is known.
  void expect_inside(const char* what, uint32_t offset) const {
    if (address_.dataLen == 0 || offset < GetSize()) return;
    hajax::ascendc::kernel_fault(hajax::ascendc::Check::out_of_bounds,
                                 hajax::ascendc::Text() << "LocalTensor: " << what << ": expected less than its "
                                                        << int64_t{GetSize()} << " elements, got " << int64_t{offset});
  }
  hajax::ascendc::Space space() const { return hajax::ascendc::space_of(static_cast<TPosition>(address_.logicPos)); }
};

template <typename T>
class GlobalTensor {
  HAJAX_CHECK_ELEMENT(T);

 public:
  using PrimType = T;

  void SetGlobalBuffer(__gm__ T* buffer, uint64_t bufferSize) {
    address_ = buffer;
    bufferSize_ = bufferSize;
  }
  void SetGlobalBuffer(__gm__ T* buffer) { SetGlobalBuffer(buffer, 0); }
  __gm__ T* GetPhyAddr() const { return address_; }
  __gm__ T* GetPhyAddr(uint64_t offset) const { return address_ + offset; }

  HAJAX_API T GetValue(uint64_t offset) const { return (*this)(offset); }
  HAJAX_API void SetValue(uint64_t offset, T value) const { (*this)(offset) = value; }
  HAJAX_API hajax::ascendc::Element<T> operator()(uint64_t offset) const {
    return {hajax::ascendc::Space::GM, address_ + offset};
  }

  GlobalTensor operator[](uint64_t offset) const {
    GlobalTensor result = *this;
    result.address_ += offset;
    return result;
  }
  uint64_t GetSize() const { return bufferSize_; }
  void SetShapeInfo(const ShapeInfo& shapeInfo) { shapeInfo_ = shapeInfo; }
  ShapeInfo GetShapeInfo() const { return shapeInfo_; }
  template <typename Mode>
  void SetL2CacheHint(Mode) {
    static_assert(hajax::ascendc::never<Mode>, "GlobalTensor::SetL2CacheHint: not on " HAJAX_CHIP ": leave it out");
  }

  __gm__ T* address_ = nullptr;
  uint64_t bufferSize_ = 0;  // elements; 0 when it was not given
  ShapeInfo shapeInfo_;
};

}  // namespace AscendC

namespace hajax::ascendc {

// The address that an instruction takes.
template <typename T>
T* pointer(const AscendC::LocalTensor<T>& tensor) {
  return reinterpret_cast<T*>(tensor.address_.absAddr);
}
template <typename T>
T* pointer(const AscendC::GlobalTensor<T>& tensor) {
  return tensor.address_;
}

// The address in UB as it stands in a register: GetPhyAddr cut to 32 bits, which the instructions know how to find
// again.
template <typename T>
uint32_t ub_address(const AscendC::LocalTensor<T>& tensor) {
  return static_cast<uint32_t>(tensor.GetPhyAddr());
}

// The block of 32 bytes in UB that holds an address, as it stands in the register of scales.
HAJAX_API uint64_t ub_block(uint64_t address) {
  return (address - reinterpret_cast<uint64_t>(hajax::emulator::space_base(Space::UB))) / AscendC::ONE_BLK_SIZE;
}

template <typename T>
Hardware hardware_of(const AscendC::LocalTensor<T>& tensor) {
  return AscendC::GetPhyType(static_cast<TPosition>(tensor.GetPosition()));
}

}  // namespace hajax::ascendc

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_TENSOR_H_
