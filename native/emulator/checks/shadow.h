// What the emulator remembers of every byte of a core's memories: whether it was written, whether its tensor was freed,
// and which instructions touched it last. Exact to the byte: 32-byte blocks are kept as one record until an access
// covers only a part of one, then by byte until something writes the whole block.
#ifndef HAJAX_NATIVE_EMULATOR_CHECKS_SHADOW_H_
#define HAJAX_NATIVE_EMULATOR_CHECKS_SHADOW_H_

#include <stdint.h>

#include <memory>
#include <unordered_map>
#include <vector>

#include "native/emulator/core/issue.h"
#include "native/emulator/core/queues.h"

namespace hajax::emulator {

class Shadow {
 public:
  enum class Verdict : uint8_t { fine, freed, unwritten, race };
  struct Conflict {
    Verdict verdict = Verdict::fine;
    int64_t offset = 0;        // of the first offending byte
    bool other_wrote = false;  // race: what the other access did
    Pipe pipe = Pipe::S;
    uint32_t number = 0;
  };
  struct Actor {
    Pipe pipe;
    uint32_t number;
    const Clock* clock;  // what the instruction knows to be complete
    bool ordered_in_pipe;
  };

  Shadow(const int64_t* sizes, bool races, bool written) : races_(races), written_(written) {
    for (int s = 0; s < kSpaces; ++s) sizes_[s] = sizes[s];
  }

  // One run of bytes; GM's never-written bytes are Gm's own business.
  Conflict access(Space space, int64_t offset, int64_t bytes, bool write, const Actor& actor);

  void undefine(Space space, int64_t offset, int64_t bytes);  // a new tensor: its bytes hold nothing yet
  void free(Space space, int64_t offset, int64_t bytes);

 private:
  struct Cell {
    uint32_t write = 0;
    uint32_t read[kPipes] = {};
    Pipe write_pipe = Pipe::S;
  };
  struct Split {
    Cell byte[32];
  };
  struct Block {
    Cell cell;
    uint32_t written = 0;  // a bit a byte
    uint32_t freed = 0;
    int32_t split = -1;  // index into splits_
  };
  static constexpr int64_t kBlock = 32;
  static constexpr int64_t kPageBlocks = 128;
  struct Page {
    Block block[kPageBlocks];
  };

  Block& block(Space space, int64_t index);
  Conflict access_block(Block& block, Space space, int64_t start, uint32_t mask, bool write, const Actor& actor);
  static bool races_with(const Cell& cell, bool write, const Actor& actor, Conflict* conflict);
  static void note(Cell& cell, bool write, const Actor& actor);
  int32_t new_split(const Cell& cell);

  const bool races_;
  const bool written_;
  int64_t sizes_[kSpaces];
  std::vector<Block> flat_[kSpaces];  // memories of the core; GM has pages
  std::unordered_map<int64_t, std::unique_ptr<Page>> pages_;
  int64_t last_page_ = -1;
  Page* last_ = nullptr;
  std::vector<std::unique_ptr<Split>> splits_;
  std::vector<int32_t> free_splits_;
};

}  // namespace hajax::emulator

#endif  // HAJAX_NATIVE_EMULATOR_CHECKS_SHADOW_H_
