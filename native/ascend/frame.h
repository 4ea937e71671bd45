// What the kernel knows while it runs: plan, call, item, chunk; and where its own variables lie at the bottom of UB.
// Device code: no standard library, no arrays at file scope.
#ifndef HAJAX_NATIVE_ASCEND_FRAME_H_
#define HAJAX_NATIVE_ASCEND_FRAME_H_

#include "hajax/abi/plan.h"
#include "kernel_operator.h"

namespace hajax::ascend {

using AscendC::GlobalTensor;
using AscendC::HardEvent;
using AscendC::LocalTensor;
using AscendC::TPosition;

// The memories of dav-m200; UB without what the API keeps for itself.
constexpr uint32_t kL1Bytes = 1024 * 1024;
constexpr uint32_t kL0aBytes = 64 * 1024;
constexpr uint32_t kL0bBytes = 64 * 1024;
constexpr uint32_t kL0cBytes = 256 * 1024;
constexpr uint32_t kUbBytes = 248 * 1024;

constexpr uint32_t kBlock = 32;
constexpr uint32_t kSide = 16;            // rows and columns of a fractal
constexpr uint32_t kHalfFractal = 512;    // bytes
constexpr uint32_t kFloatFractal = 1024;  // bytes

// The frame before the first item ...
constexpr uint32_t kPlanAt = 0;
constexpr uint32_t kLaunchAt = kPlanAt + sizeof(hj_npu_plan);
constexpr uint32_t kCallAt = kLaunchAt + sizeof(hj_npu_launch);
static_assert(kCallAt + sizeof(hj_npu_call) <= HJ_FRAME_BYTES, "");
// ... and from then on. Of a program: masks and scalars, then its sizes up to slot_bytes.
constexpr uint32_t kMasksAt = 0;
constexpr uint32_t kProgramTail = __builtin_offsetof(hj_npu_program, masks);
constexpr uint32_t kScalarsAt = __builtin_offsetof(hj_npu_program, scalars) - kProgramTail;
constexpr uint32_t kItemAt = sizeof(hj_npu_program) - kProgramTail;
constexpr uint32_t kSequenceAt = kItemAt + sizeof(hj_npu_item);
constexpr uint32_t kProgramAt = kSequenceAt + sizeof(hj_npu_sequence);
constexpr uint32_t kProgramHead = __builtin_offsetof(hj_npu_program, peak_bytes);
static_assert(kProgramAt + kProgramHead <= HJ_FRAME_BYTES, "");
static_assert(sizeof(hj_npu_plan) % kBlock == 0 && sizeof(hj_npu_launch) % kBlock == 0, "");
static_assert(kProgramTail % kBlock == 0 && kItemAt % kBlock == 0 && kProgramHead % kBlock == 0, "");
static_assert(sizeof(hj_step) == HJ_STEP_WORDS * 8, "");

enum Tensor : uint32_t {
#define TENSOR(number, name, bytes, meaning) kTensor_##name = number,
#include "hajax/abi/tensors.def"
#undef TENSOR
};
constexpr uint32_t kTensors = kTensor_workspace + 1;

enum Space : uint32_t {
#define SPACE(number, name, alignment, meaning) kSpace_##name = number,
#include "hajax/abi/spaces.def"
#undef SPACE
};

enum Dtype : int32_t {
#define DTYPE(number, name, bytes) kDtype_##name = number,
#include "hajax/abi/dtypes.def"
#undef DTYPE
};

enum Opcode : uint32_t {
#define OPCODE(number, name, pipe, meaning) kOp_##name = number,
#include "hajax/abi/opcodes.def"
#undef OPCODE
};

// A place of a core's memory as a tensor that goes on to the memory's end.
template <typename T>
__aicore__ inline LocalTensor<T> InUb(uint32_t address) {
  return LocalTensor<T>(TPosition::VECCALC, address, static_cast<uint32_t>((kUbBytes - address) / sizeof(T)));
}
template <typename T>
__aicore__ inline LocalTensor<T> InL1(uint32_t address) {
  return LocalTensor<T>(TPosition::A1, address, static_cast<uint32_t>((kL1Bytes - address) / sizeof(T)));
}
__aicore__ inline LocalTensor<half> InL0a(uint32_t address) {
  return LocalTensor<half>(TPosition::A2, address, static_cast<uint32_t>((kL0aBytes - address) / sizeof(half)));
}
__aicore__ inline LocalTensor<half> InL0b(uint32_t address) {
  return LocalTensor<half>(TPosition::B2, address, static_cast<uint32_t>((kL0bBytes - address) / sizeof(half)));
}
// Made with one fractal: the emulator also runs the kernel on a what-if chip with less of it (docs/emulator.md), and
// holds every access against the chip that it runs on.
__aicore__ inline LocalTensor<float> InL0c(uint32_t address) {
  LocalTensor<float> tensor(TPosition::CO1, address, kSide * kSide);
  tensor.SetBufferLen(kL0cBytes - address);
  return tensor;
}
// Moves count blocks of 32 bytes, whatever is in them.
__aicore__ inline GlobalTensor<half> InGm(GM_ADDR address) {
  GlobalTensor<half> tensor;
  tensor.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(address));
  return tensor;
}

// The words of a step, read as they are needed.
struct Step {
  uint64_t first;   // opcode, control, flags, count, index
  uint64_t second;  // dst, src0, src1, size
  uint64_t third;   // p

  __aicore__ constexpr uint32_t Byte(uint32_t at) const { return static_cast<uint32_t>(first >> (8 * at)) & 0xff; }
  __aicore__ constexpr uint32_t Opcode() const { return Byte(0); }
  __aicore__ constexpr uint32_t Control() const { return Byte(1); }
  __aicore__ constexpr uint32_t Waits() const { return static_cast<uint32_t>(first >> 16) & 0xffff; }
  __aicore__ constexpr uint32_t Sets() const { return static_cast<uint32_t>(first >> 32) & 0xffff; }
  __aicore__ constexpr uint32_t Count() const { return Byte(6); }
  __aicore__ constexpr uint32_t Index() const { return Byte(7); }
  __aicore__ constexpr uint32_t Dst() const { return static_cast<uint32_t>(second) & 0xffff; }
  __aicore__ constexpr uint32_t Src0() const { return static_cast<uint32_t>(second >> 16) & 0xffff; }
  __aicore__ constexpr uint32_t Src1() const { return static_cast<uint32_t>(second >> 32) & 0xffff; }
  __aicore__ constexpr uint32_t Size() const { return static_cast<uint32_t>(second >> 48); }
  __aicore__ constexpr uint32_t P(uint32_t at) const { return static_cast<uint32_t>(third >> (8 * at)) & 0xff; }
  __aicore__ constexpr uint32_t Wide(uint32_t at) const { return static_cast<uint32_t>(third >> (8 * at)) & 0xffff; }
};

// The chunk that a step works on.
struct Chunk {
  uint32_t token;  // its first, counted from the sequence's
  uint32_t rows;   // its tokens
  uint32_t odd;    // 1: second versions of buffers
  bool active;     // there is such a chunk
  bool first;      // of the sequence
  bool last;       // likewise
};

struct Context {
  // of the plan and the call
  uint32_t chunk;
  uint32_t key_heads;
  uint32_t value_heads;
  uint32_t key_dim;
  uint32_t value_dim;
  uint64_t group_inverse;  // 2^32 / value heads of a key head, rounded up: heads are few enough for it to be exact
  uint32_t output_bytes;   // of an element
  uint32_t slot_bytes;     // of a workspace slot
  uint64_t gates;
  float scale;
  GM_ADDR tensor[kTensors];
  GM_ADDR constants;
  // of the item
  uint32_t head;
  uint32_t column;
  uint64_t token;
  uint64_t gate;
  uint64_t slot;   // of the sequence's first chunk, over all sequences
  uint64_t slots;  // chunks of all sequences
  uint32_t state;
  // of the program: what alternating buffers' versions are apart
  uint32_t l1_apart;
  uint32_t l0a_apart;
  uint32_t l0b_apart;
  uint32_t l0c_apart;
  uint32_t ub_apart;
  // of the step
  Chunk at;

  // Byte address of a step's address word.
  __aicore__ inline uint32_t Address(uint32_t word, uint32_t apart) const {
    const uint32_t address = (word & (HJ_ALTERNATES - 1)) * HJ_ADDRESS_UNIT;
    return (word & HJ_ALTERNATES) != 0 && at.odd != 0 ? address + apart : address;
  }
  __aicore__ inline uint32_t L1(uint32_t word) const { return Address(word, l1_apart); }
  __aicore__ inline uint32_t L0a(uint32_t word) const { return Address(word, l0a_apart); }
  __aicore__ inline uint32_t L0b(uint32_t word) const { return Address(word, l0b_apart); }
  __aicore__ inline uint32_t L0c(uint32_t word) const { return Address(word, l0c_apart); }
  __aicore__ inline uint32_t Ub(uint32_t word) const { return Address(word, ub_apart); }

  __aicore__ inline uint32_t KeyHead(uint32_t value_head) const {
    return static_cast<uint32_t>((value_head * group_inverse) >> 32);
  }
};

}  // namespace hajax::ascend

#endif  // HAJAX_NATIVE_ASCEND_FRAME_H_
