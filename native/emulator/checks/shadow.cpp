#include "native/emulator/checks/shadow.h"

#include <algorithm>

namespace hajax::emulator {
namespace {

uint32_t bytes_mask(int64_t from, int64_t to) {  // bytes from..to-1 of a block
  const uint32_t below_to = to >= 32 ? ~uint32_t{0} : (uint32_t{1} << to) - 1;
  return below_to & ~((uint32_t{1} << from) - 1);
}

}  // namespace

Shadow::Block& Shadow::block(Space space, int64_t index) {
  if (space != Space::GM) {
    auto& flat = flat_[static_cast<int>(space)];
    if (flat.empty()) flat.resize(static_cast<size_t>((sizes_[static_cast<int>(space)] + kBlock - 1) / kBlock));
    return flat[static_cast<size_t>(index)];
  }
  const int64_t page = index / kPageBlocks;
  if (page != last_page_) {
    auto& found = pages_[page];
    if (!found) found = std::make_unique<Page>();
    last_ = found.get();
    last_page_ = page;
  }
  return last_->block[index % kPageBlocks];
}

int32_t Shadow::new_split(const Cell& cell) {
  int32_t index;
  if (free_splits_.empty()) {
    index = static_cast<int32_t>(splits_.size());
    splits_.push_back(std::make_unique<Split>());
  } else {
    index = free_splits_.back();
    free_splits_.pop_back();
  }
  std::fill(std::begin(splits_[static_cast<size_t>(index)]->byte), std::end(splits_[static_cast<size_t>(index)]->byte),
            cell);
  return index;
}

bool Shadow::races_with(const Cell& cell, bool write, const Actor& actor, Conflict* conflict) {
  const Clock& clock = *actor.clock;
  const int own = static_cast<int>(actor.pipe);
  const auto unordered = [&](int pipe, uint32_t number) {
    if (number <= clock[static_cast<size_t>(pipe)]) return false;
    return pipe != own || (number != actor.number && !actor.ordered_in_pipe);  // the instruction itself does not count
  };
  const auto found = [&](int pipe, uint32_t number, bool wrote) {
    *conflict = {Verdict::race, conflict->offset, wrote, static_cast<Pipe>(pipe), number};
  };
  // Another pipe's access is the better story: the flags that it wants order the own pipe's as well.
  if (write) {
    for (int p = 0; p < kPipes; ++p) {
      if (!unordered(p, cell.read[p])) continue;
      found(p, cell.read[p], false);
      if (p != own) return true;
    }
  }
  const int writer = static_cast<int>(cell.write_pipe);
  if (unordered(writer, cell.write) && (writer != own || conflict->verdict == Verdict::fine))
    found(writer, cell.write, true);
  return conflict->verdict == Verdict::race;
}

void Shadow::note(Cell& cell, bool write, const Actor& actor) {
  if (write) {
    // Everything before is ordered before this write, or was reported.
    cell = Cell();
    cell.write = actor.number;
    cell.write_pipe = actor.pipe;
  } else {
    cell.read[static_cast<int>(actor.pipe)] = actor.number;
  }
}

Shadow::Conflict Shadow::access_block(Block& block, Space space, int64_t start, uint32_t mask, bool write,
                                      const Actor& actor) {
  Conflict conflict;
  if (written_ && space != Space::GM) {
    const uint32_t freed = block.freed & mask;
    const uint32_t missing = write ? 0 : mask & ~block.written;
    if (freed != 0 || missing != 0) {
      conflict.verdict = freed != 0 ? Verdict::freed : Verdict::unwritten;
      conflict.offset = start + __builtin_ctz(freed != 0 ? freed : missing);
      return conflict;
    }
    if (write) block.written |= mask;
  }
  if (!races_) return conflict;
  if (block.split < 0) {
    if (races_with(block.cell, write, actor, &conflict)) {
      // Only the bytes that both touch count, and a block in one piece was touched as a whole.
      conflict.offset = start + __builtin_ctz(mask);
      return conflict;
    }
    if (mask == ~uint32_t{0}) {
      note(block.cell, write, actor);
      return conflict;
    }
    block.split = new_split(block.cell);
  }
  Split& split = *splits_[static_cast<size_t>(block.split)];
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const int byte = __builtin_ctz(rest);
    if (races_with(split.byte[byte], write, actor, &conflict)) {
      conflict.offset = start + byte;
      return conflict;
    }
    note(split.byte[byte], write, actor);
  }
  if (write && mask == ~uint32_t{0}) {
    block.cell = split.byte[0];
    free_splits_.push_back(block.split);
    block.split = -1;
  }
  return conflict;
}

Shadow::Conflict Shadow::access(Space space, int64_t offset, int64_t bytes, bool write, const Actor& actor) {
  for (int64_t at = offset; at < offset + bytes;) {
    const int64_t index = at / kBlock;
    const int64_t end = std::min(offset + bytes, (index + 1) * kBlock);
    const uint32_t mask = bytes_mask(at - index * kBlock, end - index * kBlock);
    const Conflict conflict = access_block(block(space, index), space, index * kBlock, mask, write, actor);
    if (conflict.verdict != Verdict::fine) return conflict;
    at = end;
  }
  return {};
}

void Shadow::undefine(Space space, int64_t offset, int64_t bytes) {
  if (!written_) return;
  for (int64_t at = offset; at < offset + bytes;) {
    const int64_t index = at / kBlock;
    const int64_t end = std::min(offset + bytes, (index + 1) * kBlock);
    Block& one = block(space, index);
    const uint32_t mask = bytes_mask(at - index * kBlock, end - index * kBlock);
    one.written &= ~mask;
    one.freed &= ~mask;
    at = end;
  }
}

void Shadow::free(Space space, int64_t offset, int64_t bytes) {
  if (!written_) return;
  for (int64_t at = offset; at < offset + bytes;) {
    const int64_t index = at / kBlock;
    const int64_t end = std::min(offset + bytes, (index + 1) * kBlock);
    block(space, index).freed |= bytes_mask(at - index * kBlock, end - index * kBlock);
    at = end;
  }
}

}  // namespace hajax::emulator
