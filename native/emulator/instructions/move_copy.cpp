// Copies of runs of 32-byte blocks, and atomic addition to GM.
#include <string.h>

#include <algorithm>
#include <limits>

#include "native/emulator/instructions/arguments.h"
#include "native/emulator/instructions/move.h"
#include "native/emulator/instructions/move_runs.h"

namespace hajax::emulator {
namespace {

constexpr int64_t kBlock = 32;
constexpr int64_t kMostRuns = 4095;
constexpr int64_t kMostBlocks = 65535;

struct Copy {
  Instruction instruction;
  Path path;
  Space to;
  Space from;
};

struct Blocks {
  int64_t count;
  int64_t length;
  int64_t src_gap;
  int64_t dst_gap;
};

Runs runs_of(void* dst, const void* src, const Blocks& blocks) {
  return {
      static_cast<uint8_t*>(dst), static_cast<const uint8_t*>(src),          blocks.count,
      blocks.length * kBlock,     (blocks.length + blocks.dst_gap) * kBlock, (blocks.length + blocks.src_gap) * kBlock};
}

// Checks the arguments and declares the copy.
Issue copy_issue(const Copy& copy, void* dst, const void* src, const Blocks& blocks, const void* where) {
  Issue what = new_issue(copy.instruction, where);
  require_range(what, "count", blocks.count, 1, kMostRuns);
  require_range(what, "length", blocks.length, 1, kMostBlocks);
  require_range(what, "src_gap", blocks.src_gap, 0, kMostBlocks);
  require_range(what, "dst_gap", blocks.dst_gap, 0, kMostBlocks);
  const Runs runs = runs_of(dst, src, blocks);
  what.add(access_of("src", copy.from, false, runs.from, runs.count, runs.bytes, runs.from_stride));
  what.add(access_of("dst", copy.to, true, runs.to, runs.count, runs.bytes, runs.to_stride));
  what.check_overlap = copy.from == copy.to;
  what.path = copy.path;
  what.bytes = static_cast<uint64_t>(runs.count * runs.bytes);
  what.units = static_cast<uint32_t>(runs.count);
  what.transform = blocks.length == 1 && blocks.count > 1 && (blocks.src_gap != 0) != (blocks.dst_gap != 0);
  return what;
}

void issue_copy(const Copy& copy, void* dst, const void* src, const Blocks& blocks, const void* where) {
  const Issue what = copy_issue(copy, dst, src, blocks, where);
  core().issue(what, [runs = runs_of(dst, src, blocks)] { copy_runs(runs); });
}

using Atomic = Registers::Atomic;

uint64_t add(float* sum, const float& term) {
  *sum += term;
  return 0;
}

uint64_t add(Half* sum, const Half& term) {
  const float exact = static_cast<float>(*sum) + static_cast<float>(term);  // of two halves: one rounding, in Half
  constexpr uint16_t kInfinity = 0x7c00;
  const uint16_t bits = Half(exact).bits();
  const bool over = (bits & 0x7fff) == kInfinity;
  *sum = Half::from_bits(over ? static_cast<uint16_t>(bits - 1) : bits);
  return over;
}

template <typename T>
uint64_t add_integer(T* sum, T term) {
  const int64_t exact = int64_t{*sum} + term;
  const int64_t held = std::clamp<int64_t>(exact, std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
  *sum = static_cast<T>(held);
  return held != exact;
}

uint64_t add(int16_t* sum, const int16_t& term) { return add_integer(sum, term); }
uint64_t add(int32_t* sum, const int32_t& term) { return add_integer(sum, term); }

// GM addresses may be odd: elements go through copies.
template <typename T>
uint64_t add_runs(const Runs& runs) {
  uint64_t clamped = 0;
  for (int64_t run = 0; run < runs.count; ++run) {
    for (int64_t at = 0; at < runs.bytes; at += static_cast<int64_t>(sizeof(T))) {
      uint8_t* to = runs.to + run * runs.to_stride + at;
      T sum, term;
      memcpy(&sum, to, sizeof sum);
      memcpy(&term, runs.from + run * runs.from_stride + at, sizeof term);
      clamped += add(&sum, term);
      memcpy(to, &sum, sizeof sum);
    }
  }
  return clamped;
}

uint64_t add_all(Atomic type, const Runs& runs) {
  switch (type) {
    case Atomic::f32:
      return add_runs<float>(runs);
    case Atomic::f16:
      return add_runs<Half>(runs);
    case Atomic::s16:
      return add_runs<int16_t>(runs);
    case Atomic::s32:
      return add_runs<int32_t>(runs);
    default:
      return 0;  // no setter gives it
  }
}

void set_atomic(Atomic type) {
  core().registers.atomic = type;
  core().charge(Instruction::set_register);
}

}  // namespace
}  // namespace hajax::emulator

using namespace hajax::emulator;  // NOLINT: the instructions themselves are global

void copy_gm_to_cbuf(void* dst, const void* src, int64_t, int64_t count, int64_t length, int64_t src_gap,
                     int64_t dst_gap, pad_t pad) {
  constexpr Copy kCopy = {Instruction::copy_gm_to_cbuf, Path::gm_to_l1, Space::L1, Space::GM};
  if (pad != PAD_NONE) {
    core().fail(Check::unsupported, "pad: expected PAD_NONE, got " + std::to_string(static_cast<int>(pad)),
                new_issue(kCopy.instruction, HAJAX_WHERE()));
  }
  issue_copy(kCopy, dst, src, {count, length, src_gap, dst_gap}, HAJAX_WHERE());
}

void copy_gm_to_ubuf(void* dst, const void* src, int64_t, int64_t count, int64_t length, int64_t src_gap,
                     int64_t dst_gap) {
  constexpr Copy kCopy = {Instruction::copy_gm_to_ubuf, Path::gm_to_ub, Space::UB, Space::GM};
  issue_copy(kCopy, dst, src, {count, length, src_gap, dst_gap}, HAJAX_WHERE());
}

void copy_ubuf_to_cbuf(void* dst, const void* src, int64_t, int64_t count, int64_t length, int64_t src_gap,
                       int64_t dst_gap) {
  constexpr Copy kCopy = {Instruction::copy_ubuf_to_cbuf, Path::ub_to_l1, Space::L1, Space::UB};
  issue_copy(kCopy, dst, src, {count, length, src_gap, dst_gap}, HAJAX_WHERE());
}

void copy_cbuf_to_ubuf(void* dst, const void* src, int64_t, int64_t count, int64_t length, int64_t src_gap,
                       int64_t dst_gap) {
  constexpr Copy kCopy = {Instruction::copy_cbuf_to_ubuf, Path::l1_to_ub, Space::UB, Space::L1};
  issue_copy(kCopy, dst, src, {count, length, src_gap, dst_gap}, HAJAX_WHERE());
}

void copy_ubuf_to_ubuf(void* dst, const void* src, int64_t, int64_t count, int64_t length, int64_t src_gap,
                       int64_t dst_gap) {
  constexpr Copy kCopy = {Instruction::copy_ubuf_to_ubuf, Path::ub_to_ub, Space::UB, Space::UB};
  issue_copy(kCopy, dst, src, {count, length, src_gap, dst_gap}, HAJAX_WHERE());
}

void copy_ubuf_to_gm(void* dst, const void* src, int64_t, int64_t count, int64_t length, int64_t src_gap,
                     int64_t dst_gap) {
  constexpr Copy kCopy = {Instruction::copy_ubuf_to_gm, Path::ub_to_gm, Space::GM, Space::UB};
  const void* where = HAJAX_WHERE();
  const Atomic type = core().registers.atomic;
  const Blocks blocks = {count, length, src_gap, dst_gap};
  if (type == Atomic::none) return issue_copy(kCopy, dst, src, blocks, where);
  Issue what = copy_issue(kCopy, dst, src, blocks, where);
  what.access[1].atomic = true;
  core().issue(what, [=, runs = runs_of(dst, src, blocks)] {
    core().take_turn();  // sums of floats depend on the order of their terms
    const uint64_t clamped = add_all(type, runs);
    if (clamped != 0) core().saturated(clamped, new_issue(Instruction::copy_ubuf_to_gm, where));
  });
}

void set_atomic_none() { set_atomic(Atomic::none); }
void set_atomic_add() { core().charge(Instruction::set_register); }
void set_atomic_f32() { set_atomic(Atomic::f32); }
void set_atomic_f16() { set_atomic(Atomic::f16); }
void set_atomic_s16() { set_atomic(Atomic::s16); }

void set_atomic_s32() {
  constexpr int64_t k310b = 3002;
  if (core().target().npu_arch != k310b) {
    core().fail(Check::unsupported, "atomic addition of int32_t: only on __NPU_ARCH__ 3002", HAJAX_WHERE());
  }
  set_atomic(Atomic::s32);
}
