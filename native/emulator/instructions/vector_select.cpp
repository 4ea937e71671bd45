// Selection by bits, and the compare-mask register. Documents: "Select", "SetCmpMask", "GetCmpMask" of the public API
// reference.
//
// Whole elements are moved, whatever they hold. The register belongs to V's queue: set_cmpmask, vcmp and vsel see it in
// the queue's order.
#include "native/emulator/core/services.h"
#include "native/emulator/instructions/vector.h"
#include "native/emulator/instructions/vector_lanes.h"

namespace hajax::emulator {
namespace {

constexpr int64_t kRegisterMode = 0;  // bits from the register
constexpr int64_t kScalarMode = 1;    // bits from memory, src1 is the register's first element
constexpr int64_t kTensorMode = 2;    // bits from the memory whose address is in the register
constexpr int kRegisterBytes = 16;
constexpr int kLeastBytes = 8;  // of the register's 16, those that a 32-bit vsel uses; the others may be left unwritten

template <typename T>
constexpr int lanes_of() {
  return kRepeatBytes / static_cast<int>(sizeof(T));
}

struct SelectStrides {
  int64_t dst_block, src0_block, src1_block, dst_repeat, src0_repeat, src1_repeat;
};

// Host addresses differ from the chip's; their low 32 bits stand for a UB address in registers.
uint8_t* ub_address(uint64_t low_bits) {
  uint8_t* base = core().base(Space::UB);
  const auto start = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(base));
  return base + static_cast<uint32_t>(static_cast<uint32_t>(low_bits) - start);
}

int highest_lane(const Lanes& lanes) {
  return lanes.high != 0 ? 127 - __builtin_clzll(lanes.high) : 63 - __builtin_clzll(lanes.low);
}

// The bits of all repeats but the last, and the bytes of the last that hold active lanes.
void add_bits(VectorIssue& decoded, const uint8_t* bits) {
  const Shape& shape = decoded.shape();
  if (shape.repeats == 0) return;
  Access access;
  access.operand = "sel";
  access.address = bits;
  access.bytes = shape.lanes_per_repeat / 8;
  access.repeats = shape.repeats - 1;
  access.repeat_stride = access.bytes;
  if (access.repeats != 0) decoded.add(access);
  access.address = bits + access.repeats * access.bytes;
  access.bytes = highest_lane(shape.last_lanes) / 8 + 1;
  access.repeats = 1;
  access.alignment = 1;  // that of the start is checked apart
  decoded.add(access);
}

template <typename T>
void choose(T* to, const T* a, const T* b, const Lanes& bits) {
  for (int i = 0; i < lanes_of<T>(); ++i) to[i] = bits[i] ? a[i] : b[i];
}

Lanes bits_at(const uint8_t* from, int bytes) {
  uint64_t word[2] = {};
  memcpy(word, from, static_cast<size_t>(bytes));
  return {word[0], word[1]};
}

// `bits`: null for those of the register.
template <typename T>
void run_select(const Shape& shape, const Operand& dst, const Operand& src0, const Operand* src1, const uint8_t* bits) {
  T a[lanes_of<T>()], b[lanes_of<T>()], result[lanes_of<T>()];
  const Registers& registers = core().registers;
  if (src1 == nullptr) {
    T scalar;
    memcpy(static_cast<void*>(&scalar), &registers.compare_mask[0], sizeof scalar);
    std::fill_n(b, lanes_of<T>(), scalar);
  }
  for (int32_t r = 0; r < shape.repeats; ++r) {
    load(src0, shape, r, a);
    if (src1 != nullptr) load(*src1, shape, r, b);
    const int bytes = shape.last(r) ? highest_lane(shape.last_lanes) / 8 + 1 : lanes_of<T>() / 8;
    const Lanes chosen = bits == nullptr ? Lanes{registers.compare_mask[0], registers.compare_mask[1]}
                                         : bits_at(bits + r * (lanes_of<T>() / 8), bytes);
    choose(result, a, b, chosen);
    store(dst, shape, r, result);
  }
}

template <typename T>
void check_start(VectorIssue& decoded, const T* bits) {
  const int64_t offset = core().offset(Space::UB, bits);
  if (offset % kBlockBytes != 0)
    decoded.fail(Check::misaligned, "sel at UB offset " + std::to_string(offset) + ": expected a multiple of 32 bytes");
}

template <typename T>
void select_tensors(const void* where, T* dst, const T* src0, const T* src1, int64_t repeat,
                    const SelectStrides& strides, int64_t mode, const int64_t (&reserved)[2]) {
  VectorIssue decoded(Instruction::vsel, where, lanes_of<T>(), repeat);
  for (const int64_t value : reserved) decoded.reserved("a reserved argument", value);
  if (mode != kRegisterMode && mode != kTensorMode)
    decoded.fail(Check::limit, "mode is " + std::to_string(mode) + ": expected 0 or 2 with two sources of elements");
  const Operand a = operand("src0", const_cast<T*>(src0), strides.src0_block, strides.src0_repeat);
  const Operand b = operand("src1", const_cast<T*>(src1), strides.src1_block, strides.src1_repeat);
  const Operand to = operand("dst", dst, strides.dst_block, strides.dst_repeat);
  decoded.read(a, kByteField, kByteField);
  decoded.read(b, kByteField, kByteField);
  decoded.write(to, kByteField, kByteField);
  const uint8_t* bits = nullptr;
  if (mode == kTensorMode && !core().options().counts_only) {  // which never gives the register a value
    bits = ub_address(core().registers.compare_mask[0]);
    check_start(decoded, bits);
    add_bits(decoded, bits);
  }
  core().issue(decoded.issue(), [=, shape = decoded.shape()] {
    if (mode == kTensorMode && ub_address(core().registers.compare_mask[0]) != bits)
      core().fail(Check::unsupported,
                  "mode 2 waits in the queue of V, and the address of its bits was set in that queue too: put the vsel "
                  "behind a flag that was set before",
                  named(Instruction::vsel, where));
    run_select<T>(shape, to, a, &b, bits);
  });
}

template <typename T>
void select_scalar(const void* where, T* dst, const T* src0, const void* sel, int64_t repeat,
                   const SelectStrides& strides, int64_t mode, const int64_t (&reserved)[2]) {
  VectorIssue decoded(Instruction::vsel, where, lanes_of<T>(), repeat);
  for (const int64_t value : reserved) decoded.reserved("a reserved argument", value);
  if (mode != kScalarMode)
    decoded.fail(Check::limit, "mode is " + std::to_string(mode) + ": expected 1 when the third operand holds bits");
  decoded.limit("src1 block stride", strides.src1_block, kByteField);
  decoded.limit("src1 repeat stride", strides.src1_repeat, kByteField);
  const Operand a = operand("src0", const_cast<T*>(src0), strides.src0_block, strides.src0_repeat);
  const Operand to = operand("dst", dst, strides.dst_block, strides.dst_repeat);
  const auto* bits = static_cast<const uint8_t*>(sel);
  decoded.read(a, kByteField, kByteField);
  decoded.write(to, kByteField, kByteField);
  check_start(decoded, bits);
  add_bits(decoded, bits);
  core().issue(decoded.issue(), [=, shape = decoded.shape()] { run_select<T>(shape, to, a, nullptr, bits); });
}

// One instruction of V's queue that moves the register's 16 bytes.
Issue register_move(Instruction instruction, const void* where, const char* name, const void* address, bool write) {
  Issue issue = named(instruction, where);
  issue.units = 1;
  Access access;
  access.operand = name;
  access.write = write;
  access.address = address;
  access.bytes = write ? kRegisterBytes : kLeastBytes;
  access.alignment = kRegisterBytes;
  issue.add(access);
  return issue;
}

}  // namespace
}  // namespace hajax::emulator

namespace sim = hajax::emulator;

#define HAJAX_SELECT(T, Third, kind)                                                                             \
  void vsel(T* dst, const T* src0, const Third* src1, int64_t repeat, int64_t dst_block_stride,                  \
            int64_t src0_block_stride, int64_t src1_block_stride, int64_t dst_repeat_stride,                     \
            int64_t src0_repeat_stride, int64_t src1_repeat_stride, int64_t mode, int64_t reserved0,             \
            int64_t reserved1) {                                                                                 \
    sim::kind<T>(HAJAX_WHERE(), dst, src0, src1, repeat,                                                         \
                 {dst_block_stride, src0_block_stride, src1_block_stride, dst_repeat_stride, src0_repeat_stride, \
                  src1_repeat_stride},                                                                           \
                 mode, {reserved0, reserved1});                                                                  \
  }
#define HAJAX_SELECT_ALL(T)                \
  HAJAX_SELECT(T, T, select_tensors)       \
  HAJAX_SELECT(T, uint8_t, select_scalar)  \
  HAJAX_SELECT(T, uint16_t, select_scalar) \
  HAJAX_SELECT(T, uint32_t, select_scalar) \
  HAJAX_SELECT(T, uint64_t, select_scalar)
HAJAX_SELECT_ALL(half)
HAJAX_SELECT_ALL(float)

void set_cmpmask(const void* src) {
  const sim::Issue issue = sim::register_move(sim::Instruction::set_cmpmask, HAJAX_WHERE(), "src", src, false);
  sim::core().issue(issue, [src] { memcpy(sim::core().registers.compare_mask, src, sim::kRegisterBytes); });
}

void get_cmpmask(void* dst) {
  const sim::Issue issue = sim::register_move(sim::Instruction::get_cmpmask, HAJAX_WHERE(), "dst", dst, true);
  sim::core().issue(issue, [dst] { memcpy(dst, sim::core().registers.compare_mask, sim::kRegisterBytes); });
}
