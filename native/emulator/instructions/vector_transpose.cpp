// Rearrangements of whole blocks. Documents: "Transpose", "TransDataTo5HD" of the public API reference.
//
// vnchwconv with repeat 1 starts one repeat stride behind the addresses in the registers, for sources and destinations,
// as documented; with more repeats the first starts at them. Its sixteen addresses must form at most three arithmetic
// sequences for the checks to follow.
#include <string.h>

#include <array>
#include <string>
#include <vector>

#include "native/emulator/core/services.h"
#include "native/emulator/instructions/vector.h"
#include "native/emulator/instructions/vector_shape.h"

namespace hajax::emulator {
namespace {

constexpr int kRows = 16;
constexpr int64_t kMostSide = 4095;

using Addresses = std::array<uint8_t*, kRows>;

// Sixteen block addresses of the registers `first` and the one after it.
Addresses addresses_of(VectorIssue& decoded, int first) {
  if (first < 0 || first > 6)
    decoded.fail(Check::limit,
                 "address register VA" + std::to_string(first) + ": expected VA0 to VA6, as two are used");
  Addresses found;
  for (int i = 0; i < kRows; ++i) {
    const uint64_t word = core().registers.va[first + i / 8][i % 8 / 4];
    const uint64_t block = word >> (i % 4 * 16) & 0xffff;
    found[static_cast<size_t>(i)] = core().base(Space::UB) + block * kBlockBytes;
  }
  return found;
}

// Addresses first, first + every, ... as one sequence.
struct Sequence {
  int first, every, count;
};

bool is_sequence(const Addresses& all, const Sequence& one) {
  const auto at = [&](int i) { return all[static_cast<size_t>(one.first + i * one.every)]; };
  for (int i = 2; i < one.count; ++i) {
    if (at(i) - at(i - 1) != at(1) - at(0)) return false;
  }
  return true;
}

std::vector<Sequence> sequences(const Addresses& all) {
  const std::vector<Sequence> shapes[] = {{{0, 1, 16}}, {{0, 1, 8}, {8, 1, 8}}, {{0, 2, 8}, {1, 2, 8}}};
  for (const std::vector<Sequence>& shape : shapes) {
    bool fits = true;
    for (const Sequence& one : shape) fits = fits && is_sequence(all, one);
    if (fits) return shape;
  }
  std::vector<Sequence> found;
  for (int i = 0; i < kRows;) {
    Sequence one{i, 1, 1};
    while (i + one.count < kRows && is_sequence(all, {i, 1, one.count + 1})) ++one.count;
    found.push_back(one);
    i += one.count;
  }
  return found;
}

struct Side {
  const char* name;
  Addresses rows;
  int64_t repeat_stride;  // in bytes
  int64_t bytes;          // of a row
  bool write;
};

void declare(VectorIssue& decoded, const Side& side) {
  constexpr size_t kMostSequences = 3;
  const std::vector<Sequence> found = sequences(side.rows);
  if (found.size() > kMostSequences)
    decoded.fail(Check::unsupported, std::string(side.name) + ": the sixteen addresses form " +
                                         std::to_string(found.size()) +
                                         " arithmetic sequences, and the emulator follows at most three");
  for (const Sequence& one : found) {
    const auto at = [&](int i) { return side.rows[static_cast<size_t>(one.first + i * one.every)]; };
    Access access;
    access.operand = side.name;
    access.write = side.write;
    access.address = at(0);
    access.bytes = side.bytes;
    access.blocks = one.count;
    access.block_stride = one.count > 1 ? at(1) - at(0) : side.bytes;
    access.repeats = decoded.shape().repeats;
    access.repeat_stride = side.repeat_stride;
    access.alignment = static_cast<int32_t>(side.bytes);
    decoded.add(access);
  }
}

// T: the element. A row holds sixteen elements of 8 or 16 bits, or eight of 32; `columns` of a source row's go to rows
// of the destination, which for 32 bits take two blocks each.
template <typename T>
void transpose_repeat(const Side& dst, const Side& src, int32_t repeat) {
  constexpr int kColumns = sizeof(T) == 4 ? 8 : 16;
  constexpr int kBlocksPerRow = kRows / kColumns;
  T in[kRows][kColumns], out[kColumns][kRows];
  for (int i = 0; i < kRows; ++i)
    memcpy(in[i], src.rows[static_cast<size_t>(i)] + repeat * src.repeat_stride, sizeof in[i]);
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kColumns; ++j) out[j][i] = in[i][j];
  }
  for (int block = 0; block < kRows; ++block) {
    const T* from = out[block / kBlocksPerRow] + block % kBlocksPerRow * kColumns;
    memcpy(dst.rows[static_cast<size_t>(block)] + repeat * dst.repeat_stride, from, kColumns * sizeof(T));
  }
}

template <typename T>
void blocks_transposed(const void* where, int dst, int src, int64_t repeat, int64_t dst_stride, int64_t src_stride,
                       bool dst_upper, bool src_upper) {
  constexpr int kColumns = sizeof(T) == 4 ? 8 : 16;
  constexpr int64_t kRowBytes = kColumns * sizeof(T);
  VectorIssue decoded(Instruction::vnchwconv, where, repeat);
  decoded.limit("dst repeat stride", dst_stride, kWordField);
  decoded.limit("src repeat stride", src_stride, kWordField);
  Side to{"dst", addresses_of(decoded, dst), dst_stride * kBlockBytes, kRowBytes, true};
  Side from{"src", addresses_of(decoded, src), src_stride * kBlockBytes, kRowBytes, false};
  for (uint8_t*& row : to.rows) row += (dst_upper ? kRowBytes : 0) + (repeat == 1 ? to.repeat_stride : 0);
  for (uint8_t*& row : from.rows) row += (src_upper ? kRowBytes : 0) + (repeat == 1 ? from.repeat_stride : 0);
  if (repeat == 1) to.repeat_stride = from.repeat_stride = 0;
  declare(decoded, from);
  declare(decoded, to);
  Issue& issue = decoded.issue();
  issue.transform = true;
  issue.lanes_used = static_cast<uint64_t>(repeat) * kRows * kColumns;
  issue.bytes = issue.lanes_used * sizeof(T);
  core().issue(issue, [=, repeats = decoded.shape().repeats] {
    for (int32_t r = 0; r < repeats; ++r) transpose_repeat<T>(to, from, r);
  });
}

Access whole(const char* name, const void* address, int64_t bytes, bool write) {
  Access access;
  access.operand = name;
  access.write = write;
  access.address = address;
  access.bytes = bytes;
  return access;
}

template <typename T>
void matrix_transposed(const void* where, T* dst, const T* src, int64_t pixels, int64_t channels, bool channels_last) {
  VectorIssue decoded(Instruction::v4dtrans, where, pixels == 0 || channels == 0 ? 0 : 1);
  decoded.limit("pixels", pixels, kMostSide);
  decoded.limit("channels", channels, kMostSide);
  const int64_t bytes = pixels * channels * static_cast<int64_t>(sizeof(T));
  if (pixels * static_cast<int64_t>(sizeof(T)) % kBlockBytes != 0)
    decoded.fail(Check::misaligned, "an image of " + std::to_string(pixels) + " pixels takes " +
                                        std::to_string(pixels * static_cast<int64_t>(sizeof(T))) +
                                        " bytes: expected a multiple of 32");
  const auto* to = reinterpret_cast<const uint8_t*>(dst);
  const auto* from = reinterpret_cast<const uint8_t*>(src);
  if (to < from + bytes && from < to + bytes)
    decoded.fail(Check::partial_overlap, "destination (dst) and source (src) overlap");
  decoded.add(whole("src", src, bytes, false));
  decoded.add(whole("dst", dst, bytes, true));
  Issue& issue = decoded.issue();
  issue.transform = true;
  issue.bytes = static_cast<uint64_t>(bytes);
  issue.lanes_used = static_cast<uint64_t>(pixels * channels);
  issue.units = static_cast<uint32_t>((bytes + kRepeatBytes - 1) / kRepeatBytes);
  const int64_t rows = channels_last ? pixels : channels;
  const int64_t columns = channels_last ? channels : pixels;
  core().issue(issue, [=] {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) dst[j * rows + i] = src[i * columns + j];
    }
  });
}

}  // namespace
}  // namespace hajax::emulator

namespace sim = hajax::emulator;

void vtranspose(uint16_t* dst, const uint16_t* src) {
  constexpr int kSide = 16;
  constexpr int64_t kBytes = kSide * kSide * 2;
  sim::VectorIssue decoded(sim::Instruction::vtranspose, HAJAX_WHERE(), 1);
  decoded.add(sim::whole("src", src, kBytes, false));
  decoded.add(sim::whole("dst", dst, kBytes, true));
  decoded.issue().transform = true;
  decoded.issue().bytes = kBytes;
  decoded.issue().lanes_used = kSide * kSide;
  sim::core().issue(decoded.issue(), [=] {
    uint16_t matrix[kSide][kSide];
    memcpy(matrix, src, sizeof matrix);
    for (int i = 0; i < kSide; ++i) {
      for (int j = 0; j < kSide; ++j) dst[j * kSide + i] = matrix[i][j];
    }
  });
}

void scatter_vnchwconv_b8(ub_addr8_t dst, ub_addr8_t src, int64_t repeat, int64_t dst_repeat_stride,
                          int64_t src_repeat_stride, bool dst_upper_half, bool src_upper_half) {
  sim::blocks_transposed<uint8_t>(HAJAX_WHERE(), dst, src, repeat, dst_repeat_stride, src_repeat_stride, dst_upper_half,
                                  src_upper_half);
}

void scatter_vnchwconv_b16(ub_addr8_t dst, ub_addr8_t src, int64_t repeat, int64_t dst_repeat_stride,
                           int64_t src_repeat_stride) {
  sim::blocks_transposed<uint16_t>(HAJAX_WHERE(), dst, src, repeat, dst_repeat_stride, src_repeat_stride, false, false);
}

void scatter_vnchwconv_b32(ub_addr8_t dst, ub_addr8_t src, int64_t repeat, int64_t dst_repeat_stride,
                           int64_t src_repeat_stride) {
  sim::blocks_transposed<uint32_t>(HAJAX_WHERE(), dst, src, repeat, dst_repeat_stride, src_repeat_stride, false, false);
}

void v4dtrans(uint8_t* dst, const uint8_t* src, int64_t pixels, int64_t channels, bool channels_last) {
  sim::matrix_transposed(HAJAX_WHERE(), dst, src, pixels, channels, channels_last);
}

void v4dtrans(uint16_t* dst, const uint16_t* src, int64_t pixels, int64_t channels, bool channels_last) {
  sim::matrix_transposed(HAJAX_WHERE(), dst, src, pixels, channels, channels_last);
}

void v4dtrans(uint32_t* dst, const uint32_t* src, int64_t pixels, int64_t channels, bool channels_last) {
  sim::matrix_transposed(HAJAX_WHERE(), dst, src, pixels, channels, channels_last);
}
