#include "native/emulator/checks/bounds.h"

#include <stdio.h>

#include <algorithm>

#include "native/emulator/checks/runs.h"

namespace hajax::emulator {
namespace {

std::string hex(int64_t value) {
  char text[32];
  snprintf(text, sizeof text, "%s0x%llx", value < 0 ? "-" : "",
           static_cast<unsigned long long>(value < 0 ? -value : value));
  return text;
}

std::string verb(const Access& access) { return access.write ? "writes" : "reads"; }

struct Extent {
  int64_t from;
  int64_t to;
};

// All bytes of all lanes, active or not.
Extent extent(const Access& access, int64_t start) {
  const int64_t repeats = (access.repeats - 1) * access.repeat_stride;
  const int64_t blocks = (access.blocks - 1) * access.block_stride;
  return {start + std::min<int64_t>(repeats, 0) + std::min<int64_t>(blocks, 0),
          start + std::max<int64_t>(repeats, 0) + std::max<int64_t>(blocks, 0) + access.bytes};
}

Extent active_extent(const Issue& what, const Access& access, int64_t start) {
  Extent found{INT64_MAX, INT64_MIN};
  for_each_run(what, access, start, [&](int64_t offset, int64_t bytes) {
    found.from = std::min(found.from, offset);
    found.to = std::max(found.to, offset + bytes);
  });
  return found;
}

}  // namespace

std::string check_alignment(const Access& access, int64_t start) {
  const int alignment = access.alignment != 0 ? access.alignment : alignment_of(access.space);
  if (start % alignment == 0) return "";
  return std::string(access.operand) + " at " + name_of(access.space) + " offset " + hex(start) +
         ": expected a multiple of " + std::to_string(alignment) + " bytes, got one that is " +
         std::to_string(((start % alignment) + alignment) % alignment) + " beyond";
}

std::string check_bounds(const Issue& what, const Access& access, int64_t start, int64_t size) {
  Extent reach = extent(access, start);
  if (reach.from >= 0 && reach.to <= size) return "";
  reach = active_extent(what, access, start);
  if (reach.from >= 0 && reach.to <= size) return "";
  if (reach.from > reach.to) return "";  // nothing active
  return std::string(access.operand) + " " + verb(access) + " " + name_of(access.space) + " bytes " + hex(reach.from) +
         " to " + hex(reach.to - 1) + ": expected all within the memory's " + std::to_string(size) + " bytes, got " +
         std::to_string(reach.from < 0 ? -reach.from : reach.to - size) + (reach.from < 0 ? " before" : " past") +
         " them";
}

std::string check_buffer(const Issue& what, const Access& access, int64_t start,
                         const std::map<int64_t, int64_t>& buffers) {
  if (buffers.empty()) return "";
  Extent reach = extent(access, start);
  auto buffer = buffers.upper_bound(reach.from);
  if (buffer == buffers.begin()) return "";
  --buffer;
  const int64_t end = buffer->first + buffer->second;
  if (reach.from >= end || reach.to <= end) return "";
  if (what.masked) reach = active_extent(what, access, start);
  if (reach.from >= end || reach.to <= end) return "";
  return std::string(access.operand) + " " + verb(access) + " " + name_of(access.space) + " bytes " + hex(reach.from) +
         " to " + hex(reach.to - 1) + ": expected all within the buffer of " + std::to_string(buffer->second) +
         " bytes at " + hex(buffer->first) + ", got " + std::to_string(reach.to - end) + " past its end";
}

std::string check_gm_bounds(const Issue& what, const Access& access, int64_t start, const Gm& gm, Gm::Block* block) {
  const auto inside = [&](const Extent& e) { return e.from >= block->start && e.to <= block->start + block->bytes; };
  Extent reach = extent(access, start);
  if (inside(reach)) return "";
  if (what.masked) reach = active_extent(what, access, start);
  *block = gm.find(reach.from);
  if (inside(reach)) return "";
  const int64_t first = block->bytes < 0 ? reach.from : block->start + block->bytes;
  return std::string(access.operand) + " " + verb(access) + " GM bytes " + hex(reach.from) + " to " +
         hex(reach.to - 1) + " (" + std::to_string(reach.to - reach.from) +
         " bytes): expected one allocation to hold them all, got " +
         (block->bytes < 0 ? "an address " + gm.remark(reach.from)
                           : std::to_string(reach.to - first) + " bytes past the end of an allocation of " +
                                 std::to_string(block->bytes) + " bytes at " + hex(block->start));
}

namespace {

struct Operand {
  const Issue* issue;
  const Access* access;
  int64_t at;  // host address, as a number
};

Extent group(const Operand& operand, int32_t repeat) {
  const int64_t from = operand.at + repeat * operand.access->repeat_stride;
  return {from, from + (operand.access->blocks - 1) * operand.access->block_stride + operand.access->bytes};
}

bool meet(const Extent& a, const Extent& b) { return a.from < b.to && b.from < a.to; }

bool same(const Operand& a, int32_t ra, const Operand& b, int32_t rb) {
  return group(a, ra).from == group(b, rb).from && a.access->bytes == b.access->bytes &&
         a.access->blocks == b.access->blocks &&
         (a.access->blocks == 1 || a.access->block_stride == b.access->block_stride);
}

// Whether a lane of the block is on.
bool active(const Operand& operand, int32_t repeat, int32_t block) {
  const Access& access = *operand.access;
  const Issue& what = *operand.issue;
  if (!what.masked || access.lane_bytes == 0) return true;
  const Lanes& lanes = what.has_last_lanes && repeat == access.repeats - 1 ? what.last_lanes : what.lanes;
  const auto in_block = static_cast<int>(access.bytes / access.lane_bytes);
  for (int lane = 0; lane < in_block; ++lane) {
    if (lanes[block * in_block + lane]) return true;
  }
  return false;
}

// Blocks are compared one by one: interleaved blocks of two operands do not overlap though their extents do, and
// neither do those that the mask leaves out.
bool blocks_meet(const Operand& a, int32_t ra, const Operand& b, int32_t rb) {
  for (int32_t i = 0; i < a.access->blocks; ++i) {
    if (!active(a, ra, i)) continue;
    const int64_t from = a.at + ra * a.access->repeat_stride + i * a.access->block_stride;
    for (int32_t j = 0; j < b.access->blocks; ++j) {
      if (!active(b, rb, j)) continue;
      const int64_t other = b.at + rb * b.access->repeat_stride + j * b.access->block_stride;
      if (meet({from, from + a.access->bytes}, {other, other + b.access->bytes})) return true;
    }
  }
  return false;
}

std::string overlap_of(const Operand& to, const Operand& from) {
  const int32_t repeats = std::min(to.access->repeats, from.access->repeats);
  const auto text = [&](int32_t rt, int32_t rf) {
    return std::string("destination (") + to.access->operand + ") of repeat " + std::to_string(rt) + " and source (" +
           from.access->operand + ") of repeat " + std::to_string(rf) +
           " overlap in part: " + std::to_string(group(from, rf).from - group(to, rt).from) + " bytes apart";
  };
  for (int32_t r = 0; r < repeats; ++r) {
    if (meet(group(to, r), group(from, r)) && !same(to, r, from, r) && blocks_meet(to, r, from, r)) return text(r, r);
  }
  // An operand that stands still (stride 0) accumulates from repeat to repeat, which the hardware orders.
  const bool accumulates = to.access->repeat_stride == 0 && from.access->repeat_stride == 0 && same(to, 0, from, 0);
  if (accumulates) return "";
  for (int32_t r = 0; r < repeats; ++r) {
    for (int32_t later = r + 1; later < repeats; ++later) {
      if (meet(group(to, r), group(from, later)) && blocks_meet(to, r, from, later)) {
        return text(r, later) + ", so that a repeat reads what an earlier one writes";
      }
    }
  }
  return "";
}

}  // namespace

std::string check_overlap(const Issue& what) {
  for (int i = 0; i < what.accesses; ++i) {
    if (!what.access[i].write) continue;
    const Operand to{&what, &what.access[i], static_cast<int64_t>(reinterpret_cast<intptr_t>(what.access[i].address))};
    const Extent whole = extent(*to.access, to.at);
    for (int j = 0; j < what.accesses; ++j) {
      if (what.access[j].write || what.access[j].space != to.access->space) continue;
      const Operand from{&what, &what.access[j],
                         static_cast<int64_t>(reinterpret_cast<intptr_t>(what.access[j].address))};
      if (!meet(whole, extent(*from.access, from.at))) continue;
      const bool in_place = from.at == to.at && from.access->repeat_stride == to.access->repeat_stride &&
                            same(to, 0, from, 0) && to.access->repeat_stride >= group(to, 0).to - group(to, 0).from;
      if (in_place) continue;  // the common case, whatever the number of repeats
      std::string text = overlap_of(to, from);
      if (!text.empty()) return text;
    }
  }
  return "";
}

}  // namespace hajax::emulator
