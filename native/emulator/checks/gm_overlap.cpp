#include "native/emulator/checks/gm_overlap.h"

#include <algorithm>
#include <memory>
#include <unordered_map>

namespace hajax::emulator {
namespace {

constexpr int64_t kPage = 4096;
constexpr uint16_t kAtomic = 0x8000;

// Which core wrote each byte since the last SyncAll: 0 none, core + 1, with kAtomic when it was an atomic addition.
class Writers {
 public:
  // Calls found(offset, writer) for the first byte that another core than `mark`'s wrote, unless both are atomic.
  template <typename Found>
  bool meet(int64_t offset, int64_t bytes, uint16_t mark, bool paint, Found found) {
    for (int64_t at = offset; at < offset + bytes;) {
      const int64_t page = at / kPage;
      const int64_t end = std::min(offset + bytes, (page + 1) * kPage);
      auto known = pages_.find(page);
      if (known == pages_.end()) {
        if (!paint) {
          at = end;
          continue;
        }
        known = pages_.emplace(page, std::make_unique<uint16_t[]>(kPage)).first;
      }
      uint16_t* writer = known->second.get() - page * kPage;
      for (; at < end; ++at) {
        const uint16_t other = writer[at];
        if (other != 0 && other != mark && ((other ^ mark) & ~kAtomic) != 0 && !(other & mark & kAtomic)) {
          found(at, other);
          return true;
        }
        if (paint) writer[at] = mark;
      }
    }
    return false;
  }

 private:
  std::unordered_map<int64_t, std::unique_ptr<uint16_t[]>> pages_;
};

bool holds(const GmAccess& access, int64_t byte) {
  for (int32_t r = 0; r < access.runs; ++r) {
    const int64_t from = access.offset + r * access.stride;
    if (byte >= from && byte < from + access.bytes) return true;
  }
  return false;
}

Place place_of(const GmAccess& access) {
  return {access.instruction, access.pipe, access.number, access.where, access.step, true};
}

Fault fault_of(const std::string& kernel, const std::vector<CoreRecord>& records, const Gm& gm, size_t core,
               const GmAccess& access, int64_t byte, uint16_t writer) {
  Fault fault;
  fault.check = Check::gm_overlap;
  fault.kernel = kernel;
  fault.core = static_cast<int>(core);
  fault.at = place_of(access);
  const size_t other = static_cast<size_t>(writer & ~kAtomic) - 1;
  for (const GmAccess& candidate : records[other].gm) {
    if (!candidate.write || candidate.epoch != access.epoch || !holds(candidate, byte)) continue;
    fault.other = place_of(candidate);
    break;
  }
  const Gm::Block block = gm.find(byte);
  fault.text = std::string(access.write ? "writes" : "reads") + " GM byte " + std::to_string(byte) + " (byte " +
               std::to_string(byte - block.start) + " of an allocation of " + std::to_string(block.bytes) +
               " bytes), which core " + std::to_string(other) + " writes with no SyncAll between";
  return fault;
}

}  // namespace

std::optional<Fault> check_gm_overlap(const std::string& kernel, const std::vector<CoreRecord>& records, const Gm& gm) {
  if (records.size() < 2) return std::nullopt;
  std::vector<size_t> next(records.size(), 0);  // a core's accesses are in the order of its epochs
  const auto more = [&] {
    for (size_t c = 0; c < records.size(); ++c) {
      if (next[c] < records[c].gm.size()) return true;
    }
    return false;
  };
  for (uint32_t epoch = 0; more(); ++epoch) {
    Writers writers;
    std::vector<size_t> end = next;
    std::optional<Fault> fault;
    for (const bool writes : {true, false}) {
      for (size_t c = 0; c < records.size() && !fault; ++c) {
        for (end[c] = next[c]; end[c] < records[c].gm.size() && records[c].gm[end[c]].epoch == epoch; ++end[c]) {
          const GmAccess& access = records[c].gm[end[c]];
          if (access.write != writes) continue;
          const auto mark = static_cast<uint16_t>((c + 1) | (access.atomic ? kAtomic : 0));
          for (int32_t r = 0; r < access.runs && !fault; ++r) {
            writers.meet(
                access.offset + r * access.stride, access.bytes, mark, writes,
                [&](int64_t byte, uint16_t writer) { fault = fault_of(kernel, records, gm, c, access, byte, writer); });
          }
          if (fault) break;
        }
      }
    }
    if (fault) return fault;
    next = end;
  }
  return std::nullopt;
}

}  // namespace hajax::emulator
