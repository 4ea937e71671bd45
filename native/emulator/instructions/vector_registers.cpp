// Registers of the scalar unit that vector instructions read when they are issued, and those that reductions leave.
// Documents: "SetVectorMask", "SetMaskCount", "SetMaskNorm", "SetDeqScale", "TransDataTo5HD", "GetReduceMaxMinCount",
// "GetGatherMaskRemainCount" of the public API reference.
#include <string>

#include "native/emulator/core/core.h"
#include "native/emulator/core/services.h"
#include "native/emulator/instructions/vector.h"
#include "native/emulator/instructions/vector_shape.h"

namespace hajax::emulator {
namespace {

constexpr int kCounterBit = 56;   // of CTRL: counter mode
constexpr int kSaturateBit = 53;  // of 310P's CTRL: set for saturating arithmetic
constexpr int kInfinityBit = 48;  // of 310B's CTRL: set for infinities and NaN
constexpr int64_t kArch310P = 2002;
constexpr int kBlocksOfRegister = 8;
constexpr int64_t kMostBlocks = 65536;  // an address register holds 16-bit block numbers

uint64_t with_bit(uint64_t word, int bit, bool on) {
  const uint64_t one = uint64_t{1} << bit;
  return on ? word | one : word & ~one;
}

void set_control(uint64_t value, const void* where) {
  Core& running = core();
  const bool saturates =
      running.target().npu_arch == kArch310P ? value >> kSaturateBit & 1 : !(value >> kInfinityBit & 1);
  if (!saturates)
    running.fail(Check::unsupported, "CTRL asks for infinities and NaN in fp16 results: only saturation is emulated",
                 where);
  running.registers.ctrl = value;
  running.registers.counter_mode = value >> kCounterBit & 1;
  running.charge(Instruction::set_register);
}

uint64_t control() {
  const Core& running = core();
  const uint64_t value = with_bit(running.registers.ctrl, kCounterBit, running.registers.counter_mode);
  return running.target().npu_arch == kArch310P ? with_bit(value, kSaturateBit, true)
                                                : with_bit(value, kInfinityBit, false);
}

void set_addresses(int which, const uint64_t* addresses, const void* where) {
  Core& running = core();
  for (int i = 0; i < kBlocksOfRegister; ++i) {
    const int64_t offset =
        running.offset(Space::UB, reinterpret_cast<const void*>(static_cast<uintptr_t>(addresses[i])));
    const std::string which_one =
        "address " + std::to_string(i) + " of VA" + std::to_string(which) + " at UB offset " + std::to_string(offset);
    if (offset % kBlockBytes != 0)
      running.fail(Check::misaligned, which_one + ": expected a multiple of 32 bytes", where);
    if (offset < 0 || offset / kBlockBytes >= kMostBlocks)
      running.fail(Check::out_of_bounds, which_one + ": expected an address of UB", where);
    uint64_t& word = running.registers.va[which][i / 4];
    const int shift = i % 4 * 16;
    word = (word & ~(uint64_t{0xffff} << shift)) | static_cast<uint64_t>(offset / kBlockBytes) << shift;
  }
  running.charge(Instruction::set_register);
}

int64_t read_register(uint64_t value) {
  core().charge(Instruction::set_register);
  return static_cast<int64_t>(value);
}

}  // namespace
}  // namespace hajax::emulator

namespace sim = hajax::emulator;

void set_mask_norm() {
  sim::core().registers.counter_mode = false;
  sim::core().charge(sim::Instruction::set_mask_norm);
}

void set_mask_count() {
  sim::core().registers.counter_mode = true;
  sim::core().charge(sim::Instruction::set_mask_count);
}

void set_vector_mask(uint64_t high, uint64_t low) {
  sim::core().registers.mask_high = high;
  sim::core().registers.mask_low = low;
  sim::core().charge(sim::Instruction::set_vector_mask);
}

void set_va_reg_sb(ub_addr8_t which, const uint64_t* addresses) {
  sim::set_addresses(static_cast<int>(which), addresses, HAJAX_WHERE());
}

void set_deqscale(half scale) { set_deqscale(uint64_t{scale.bits()}); }

void set_deqscale(uint64_t config) {
  sim::core().registers.deq_scale = config;
  sim::core().charge(sim::Instruction::set_register);
}

void set_ctrl(uint64_t value) { sim::set_control(value, HAJAX_WHERE()); }

int64_t get_ctrl() { return sim::read_register(sim::control()); }

int64_t get_max_min_cnt() {
  const sim::Registers& registers = sim::core().registers;
  return sim::read_register(registers.max_min_index << 32 | registers.max_min_value);
}

int64_t get_acc_val() { return sim::read_register(sim::core().registers.accumulated); }

int64_t get_rsvd_cnt() { return sim::read_register(sim::core().registers.reserved_count); }
