#include "native/emulator/instructions/cube.h"

#include "native/emulator/instructions/arguments.h"
#include "native/emulator/instructions/cube_multiply.h"
#include "native/emulator/instructions/gemm.h"

namespace hajax::emulator {
namespace {

constexpr int64_t kFractalBytes = 512;
constexpr int64_t kBlockBytes = 32;  // one row of a fractal of A, one column of one of B
constexpr int64_t kMostSize = 4095;

// The operand's fractals lie in `lines` lines of `tiles` each. Of the last tile of a line, or of every tile of the last
// line, only `ragged` blocks are needed (0: all): two accesses instead of one.
void read_a(Issue& what, const void* a, const CubeShape& shape) {
  Access read;
  read.operand = "a";
  read.space = Space::L0A;
  read.address = a;
  if (shape.vector) {
    read.bytes = shape.k * shape.operand_bytes;
    what.add(read);
    return;
  }
  const int64_t line = shape.depth_tiles * kFractalBytes;
  const int64_t ragged = shape.m % kTile;
  const int64_t whole = shape.row_tiles - (ragged != 0 ? 1 : 0);
  if (whole > 0) {
    read.bytes = whole * line;
    what.add(read);
  }
  if (ragged == 0) return;
  read.address = static_cast<const uint8_t*>(a) + whole * line;
  read.bytes = ragged * kBlockBytes;
  read.blocks = static_cast<int32_t>(shape.depth_tiles);
  read.block_stride = kFractalBytes;
  what.add(read);
}

void read_b(Issue& what, const void* b, const CubeShape& shape) {
  const int64_t line = shape.column_tiles * kFractalBytes;
  const int64_t ragged = shape.n % kTile;
  const int64_t whole = shape.column_tiles - (ragged != 0 ? 1 : 0);
  Access read;
  read.operand = "b";
  read.space = Space::L0B;
  read.address = b;
  read.blocks = static_cast<int32_t>(shape.depth_tiles);
  read.block_stride = line;
  if (whole > 0) {
    read.bytes = whole * kFractalBytes;
    what.add(read);
  }
  if (ragged == 0) return;
  read.address = static_cast<const uint8_t*>(b) + whole * kFractalBytes;
  read.bytes = ragged * kBlockBytes;
  what.add(read);
}

void touch_c(Issue& what, const void* c, int64_t element_bytes, const CubeShape& shape, bool init) {
  Access access;
  access.operand = "c";
  access.space = Space::L0C;
  access.address = c;
  access.bytes = shape.row_tiles * shape.column_tiles * kTile * kTile * element_bytes;
  access.alignment = static_cast<int32_t>(kTile * kTile * element_bytes);
  // So many tiles keep the cube busy until the first of them is written: the chip needs no barrier before the next
  // Mmad.
  access.ordered_in_pipe = shape.row_tiles * shape.column_tiles >= core().target().cube_barrier_tiles;
  if (!init) what.add(access);
  access.write = true;
  what.add(access);
}

template <typename C, typename A, typename B>
void issue_mad(C* c, const A* a, const B* b, int64_t m, int64_t k, int64_t n, bool init, const void* where) {
  Issue what = new_issue(Instruction::mad, where);
  require_range(what, "m", m, 1, kMostSize);
  require_range(what, "k", k, 1, kMostSize);
  require_range(what, "n", n, 1, kMostSize);
  const CubeShape shape(m, k, n, static_cast<int64_t>(sizeof(A)));
  read_a(what, a, shape);
  read_b(what, b, shape);
  touch_c(what, c, static_cast<int64_t>(sizeof(C)), shape, init);
  const int64_t tiles = shape.row_tiles * shape.column_tiles * shape.depth_tiles;
  what.units = static_cast<uint32_t>(tiles);
  what.macs = static_cast<uint64_t>(tiles * kTile * kTile * shape.tile_depth);
  what.useful_macs = static_cast<uint64_t>(m * k * n);
  core().issue(what, [=] {
    const int64_t clamped = cube_multiply(c, a, b, shape, init);
    if (clamped != 0) core().saturated(static_cast<uint64_t>(clamped), new_issue(Instruction::mad, where));
  });
}

void require_arch(int64_t arch, const char* form, const void* where) {
  if (core().target().npu_arch == arch) return;
  core().fail(Check::unsupported, std::string("Mmad of ") + form + ": only on __NPU_ARCH__ " + std::to_string(arch),
              new_issue(Instruction::mad, where));
}

void require_plain(int64_t unit_flag, bool k_direction_align, bool c_matrix_source, const void* where) {
  const Issue what = new_issue(Instruction::mad, where);
  if (unit_flag != 0) core().fail(Check::unsupported, "unit_flag: expected 0, got " + std::to_string(unit_flag), what);
  if (k_direction_align) core().fail(Check::unsupported, "k_direction_align: expected false, got true", what);
  if (c_matrix_source) core().fail(Check::unsupported, "c_matrix_source: expected false, got true", what);
}

constexpr int64_t k310p = 2002;
constexpr int64_t k310b = 3002;

}  // namespace
}  // namespace hajax::emulator

using namespace hajax::emulator;  // NOLINT: the instructions themselves are global

void mad(float* c, half* a, half* b, int64_t m, int64_t k, int64_t n, bool init) {
  issue_mad(c, a, b, m, k, n, init, HAJAX_WHERE());
}

void mad(half* c, half* a, half* b, int64_t m, int64_t k, int64_t n, bool init) {
  require_arch(k310p, "half into half", HAJAX_WHERE());
  issue_mad(c, a, b, m, k, n, init, HAJAX_WHERE());
}

void mad(int32_t* c, int8_t* a, int8_t* b, int64_t m, int64_t k, int64_t n, bool init) {
  issue_mad(c, a, b, m, k, n, init, HAJAX_WHERE());
}

void mad(int32_t* c, uint8_t* a, int8_t* b, int64_t m, int64_t k, int64_t n, bool init) {
  require_arch(k310p, "uint8_t with int8_t", HAJAX_WHERE());
  issue_mad(c, a, b, m, k, n, init, HAJAX_WHERE());
}

void mad(int32_t* c, uint8_t* a, uint8_t* b, int64_t m, int64_t k, int64_t n, bool init) {
  require_arch(k310p, "uint8_t", HAJAX_WHERE());
  issue_mad(c, a, b, m, k, n, init, HAJAX_WHERE());
}

void mad(float* c, half* a, half* b, int64_t m, int64_t k, int64_t n, int64_t unit_flag, bool k_direction_align,
         bool c_matrix_source, bool init) {
  require_plain(unit_flag, k_direction_align, c_matrix_source, HAJAX_WHERE());
  issue_mad(c, a, b, m, k, n, init, HAJAX_WHERE());
}

void mad(float* c, float* a, float* b, int64_t m, int64_t k, int64_t n, int64_t unit_flag, bool k_direction_align,
         bool c_matrix_source, bool init) {
  require_arch(k310b, "float", HAJAX_WHERE());
  require_plain(unit_flag, k_direction_align, c_matrix_source, HAJAX_WHERE());
  issue_mad(c, a, b, m, k, n, init, HAJAX_WHERE());
}

void mad(int32_t* c, int8_t* a, int8_t* b, int64_t m, int64_t k, int64_t n, int64_t unit_flag, bool k_direction_align,
         bool c_matrix_source, bool init) {
  require_plain(unit_flag, k_direction_align, c_matrix_source, HAJAX_WHERE());
  issue_mad(c, a, b, m, k, n, init, HAJAX_WHERE());
}
