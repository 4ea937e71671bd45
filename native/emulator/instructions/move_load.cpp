// Loads of fractals from GM to L1, L0A and L0B and from L1 to L0A and L0B, and fills.
#include <string.h>

#include "native/emulator/instructions/arguments.h"
#include "native/emulator/instructions/move.h"
#include "native/emulator/instructions/move_runs.h"

namespace hajax::emulator {
namespace {

constexpr int64_t kFractal = 512;
constexpr int64_t kSide = 16;  // rows and columns of a fractal of 16-bit elements
constexpr int64_t kMostRepeats = 255;
constexpr int64_t kMostFractals = 65535;
constexpr int64_t k310b = 3002;

struct Load {
  Instruction instruction;
  Path path;
  Space to;
  Space from;
};
constexpr Load kGmToL1 = {Instruction::load_gm_to_cbuf, Path::gm_to_l1, Space::L1, Space::GM};
constexpr Load kGmToL0a = {Instruction::load_gm_to_ca, Path::gm_to_l0a, Space::L0A, Space::GM};
constexpr Load kGmToL0b = {Instruction::load_gm_to_cb, Path::gm_to_l0b, Space::L0B, Space::GM};
constexpr Load kL1ToL0a = {Instruction::load_cbuf_to_ca, Path::l1_to_l0a, Space::L0A, Space::L1};
constexpr Load kL1ToL0b = {Instruction::load_cbuf_to_cb, Path::l1_to_l0b, Space::L0B, Space::L1};

struct Places {
  int64_t start;
  int64_t repeat;
  int64_t src_stride;
  int64_t dst_gap;
  addr_cal_mode_t mode;
};

void transpose_fractal(uint8_t* to, const uint8_t* from) {
  uint16_t in[kSide * kSide], out[kSide * kSide];
  memcpy(in, from, sizeof in);
  for (int64_t row = 0; row < kSide; ++row) {
    for (int64_t column = 0; column < kSide; ++column) out[column * kSide + row] = in[row * kSide + column];
  }
  memcpy(to, out, sizeof out);
}

void require_load(const Issue& what, const Places& places, int64_t element_bytes, bool transpose) {
  require_range(what, "start", places.start, 0, kMostFractals);
  require_range(what, "repeat", places.repeat, 0, kMostRepeats);
  require_range(what, "src_stride", places.src_stride, 0, kMostFractals);
  require_range(what, "dst_gap", places.dst_gap, 0, kMostFractals);
  if (places.mode == dec && places.repeat > 0) {
    require_range(what, "start of the last fractal", places.start - (places.repeat - 1) * places.src_stride, 0,
                  kMostFractals);
  }
  if (transpose && element_bytes != 2) {
    core().fail(Check::unsupported,
                "transpose: expected elements of 2 bytes, got " + std::to_string(element_bytes) + " bytes", what);
  }
  if (element_bytes == 4 && core().target().npu_arch != k310b) {
    core().fail(Check::unsupported, "elements of 4 bytes: only on __NPU_ARCH__ 3002", what);
  }
}

void issue_load(const Load& load, void* dst, const void* src, const Places& places, int64_t element_bytes,
                bool transpose, const void* where) {
  Issue what = new_issue(load.instruction, where);
  require_load(what, places, element_bytes, transpose);
  if (places.repeat == 0) return core().issue(what);
  const int64_t step = (places.mode == dec ? -places.src_stride : places.src_stride) * kFractal;
  const Runs runs = {static_cast<uint8_t*>(dst),
                     static_cast<const uint8_t*>(src) + places.start * kFractal,
                     places.repeat,
                     kFractal,
                     (1 + places.dst_gap) * kFractal,
                     step};
  // Declared from the lowest address on; a stride of 0 reads one fractal again and again.
  const uint8_t* lowest = step < 0 ? runs.from + (runs.count - 1) * step : runs.from;
  what.add(access_of("src", load.from, false, lowest, step == 0 ? 1 : runs.count, kFractal, step < 0 ? -step : step));
  what.add(access_of("dst", load.to, true, runs.to, runs.count, kFractal, runs.to_stride));
  what.path = load.path;
  what.bytes = static_cast<uint64_t>(runs.count * kFractal);
  what.units = static_cast<uint32_t>(runs.count);
  what.transform = transpose;
  if (!transpose) return core().issue(what, [runs] { copy_runs(runs); });
  core().issue(what, [runs] {
    for (int64_t run = 0; run < runs.count; ++run) {
      transpose_fractal(runs.to + run * runs.to_stride, runs.from + run * runs.from_stride);
    }
  });
}

struct Fill {
  Instruction instruction;
  Space to;
  int64_t block;
};
constexpr Fill kFillL1 = {Instruction::create_cbuf_matrix, Space::L1, 32};
constexpr Fill kFillL0a = {Instruction::create_ca_matrix, Space::L0A, kFractal};
constexpr Fill kFillL0b = {Instruction::create_cb_matrix, Space::L0B, kFractal};

template <typename T>
void issue_fill(const Fill& fill, void* dst, int64_t config, T value, const void* where) {
  Issue what = new_issue(fill.instruction, where);
  int64_t repeats = config;
  int64_t bytes = kFractal;
  int64_t gap = 0;
  if (core().target().npu_arch == k310b) {
    constexpr int64_t kField = 0xffff;
    constexpr int64_t kMost = 32767;
    repeats = config & kField;
    bytes = (config >> 16 & kField) * fill.block;
    gap = (config >> 32) * fill.block;
    require_range(what, "repeats", repeats, 0, kMost);
    require_range(what, "blocks", bytes / fill.block, 0, kMost);
    require_range(what, "gap", gap / fill.block, 0, kMost);
  } else {
    require_range(what, "repeats", repeats, 0, kMostRepeats);
    if (sizeof(T) == 4) core().fail(Check::unsupported, "elements of 4 bytes: only on __NPU_ARCH__ 3002", what);
  }
  if (repeats == 0 || bytes == 0) return core().issue(what);
  what.add(access_of("dst", fill.to, true, dst, repeats, bytes, bytes + gap));
  what.units = static_cast<uint32_t>((repeats * bytes + kFractal - 1) / kFractal);
  auto* to = static_cast<uint8_t*>(dst);
  core().issue(what, [=] {
    for (int64_t run = 0; run < repeats; ++run) {
      for (int64_t at = 0; at < bytes; at += static_cast<int64_t>(sizeof value)) {
        memcpy(to + run * (bytes + gap) + at, &value, sizeof value);
      }
    }
  });
}

}  // namespace
}  // namespace hajax::emulator

using namespace hajax::emulator;  // NOLINT: the instructions themselves are global

#define HAJAX_LOADS(T)                                                                                               \
  void load_gm_to_cbuf(T* dst, T* src, int64_t start, int64_t repeat, int64_t src_stride, int64_t dst_gap, int64_t,  \
                       addr_cal_mode_t mode) {                                                                       \
    issue_load(kGmToL1, dst, src, {start, repeat, src_stride, dst_gap, mode}, sizeof(T), false, HAJAX_WHERE());      \
  }                                                                                                                  \
  void load_gm_to_ca(T* dst, T* src, int64_t start, int64_t repeat, int64_t src_stride, int64_t dst_gap, int64_t,    \
                     addr_cal_mode_t mode) {                                                                         \
    issue_load(kGmToL0a, dst, src, {start, repeat, src_stride, dst_gap, mode}, sizeof(T), false, HAJAX_WHERE());     \
  }                                                                                                                  \
  void load_gm_to_cb(T* dst, T* src, int64_t start, int64_t repeat, int64_t src_stride, int64_t dst_gap, int64_t,    \
                     addr_cal_mode_t mode) {                                                                         \
    issue_load(kGmToL0b, dst, src, {start, repeat, src_stride, dst_gap, mode}, sizeof(T), false, HAJAX_WHERE());     \
  }                                                                                                                  \
  void load_cbuf_to_ca(T* dst, T* src, int64_t start, int64_t repeat, int64_t src_stride, int64_t dst_gap, int64_t,  \
                       bool transpose, addr_cal_mode_t mode) {                                                       \
    issue_load(kL1ToL0a, dst, src, {start, repeat, src_stride, dst_gap, mode}, sizeof(T), transpose, HAJAX_WHERE()); \
  }                                                                                                                  \
  void load_cbuf_to_cb(T* dst, T* src, int64_t start, int64_t repeat, int64_t src_stride, int64_t dst_gap, int64_t,  \
                       bool transpose, addr_cal_mode_t mode) {                                                       \
    issue_load(kL1ToL0b, dst, src, {start, repeat, src_stride, dst_gap, mode}, sizeof(T), transpose, HAJAX_WHERE()); \
  }                                                                                                                  \
  void load_cbuf_to_ca(T* dst, T* src, int64_t start, int64_t repeat, int64_t src_stride, int64_t dst_gap,           \
                       bool transpose, addr_cal_mode_t mode) {                                                       \
    issue_load(kL1ToL0a, dst, src, {start, repeat, src_stride, dst_gap, mode}, sizeof(T), transpose, HAJAX_WHERE()); \
  }                                                                                                                  \
  void load_cbuf_to_cb(T* dst, T* src, int64_t start, int64_t repeat, int64_t src_stride, int64_t dst_gap,           \
                       bool transpose, addr_cal_mode_t mode) {                                                       \
    issue_load(kL1ToL0b, dst, src, {start, repeat, src_stride, dst_gap, mode}, sizeof(T), transpose, HAJAX_WHERE()); \
  }
HAJAX_LOADS(half)
HAJAX_LOADS(int8_t)
HAJAX_LOADS(uint8_t)
HAJAX_LOADS(int16_t)
HAJAX_LOADS(uint16_t)
HAJAX_LOADS(float)
HAJAX_LOADS(int32_t)
HAJAX_LOADS(uint32_t)

void create_cbuf_matrix(void* dst, int64_t config, half value) {
  issue_fill(kFillL1, dst, config, value, HAJAX_WHERE());
}
void create_ca_matrix(void* dst, int64_t config, half value) {
  issue_fill(kFillL0a, dst, config, value, HAJAX_WHERE());
}
void create_cb_matrix(void* dst, int64_t config, half value) {
  issue_fill(kFillL0b, dst, config, value, HAJAX_WHERE());
}
void create_cbuf_matrix(void* dst, int64_t config, uint32_t value) {
  issue_fill(kFillL1, dst, config, value, HAJAX_WHERE());
}
void create_ca_matrix(void* dst, int64_t config, uint32_t value) {
  issue_fill(kFillL0a, dst, config, value, HAJAX_WHERE());
}
void create_cb_matrix(void* dst, int64_t config, uint32_t value) {
  issue_fill(kFillL0b, dst, config, value, HAJAX_WHERE());
}
