#include "native/ascend/host/plan_view.h"

#include <cstddef>
#include <cstring>
#include <initializer_list>

#include "native/ascend/host/checksum.h"
#include "native/ascend/host/step_check.h"

#ifndef HAJAX_ABI_DIGEST
#error "the build defines HAJAX_ABI_DIGEST, the SHA-256 of hajax/abi"
#endif

namespace hajax::ascend::host {
namespace {

static_assert(sizeof(hj_npu_plan) == 160 && sizeof(hj_npu_launch) == 64 && sizeof(hj_npu_item) == HJ_ITEM_BYTES &&
                  sizeof(hj_npu_sequence) == HJ_SEQUENCE_BYTES && sizeof(hj_npu_call) == 32 &&
                  sizeof(hj_npu_program) == 480 && sizeof(hj_step) == 8 * HJ_STEP_WORDS,
              "explicit padding only");

constexpr int64_t kArch = 2002;  // what the kernel is written for
constexpr int64_t kBlock = HJ_ADDRESS_UNIT;
constexpr int32_t kSide = 16;
constexpr int32_t kMostChunk = 128;
constexpr int32_t kMostDim = 1024;
constexpr int32_t kMostHeads = 1 << 15;
constexpr int64_t kMostGap = 65535;  // blocks that a copy can skip
constexpr int32_t kMostRows = 1 << 20;
constexpr int32_t kMostCores = sizeof(hj_npu_launch::core_items) / sizeof(int32_t);

bool between(int64_t n, int64_t low, int64_t high) { return n >= low && n <= high; }

Failure in_range(const std::string& field, int64_t got, int64_t low, int64_t high) {
  return between(got, low, high) ? Failure{} : bad_plan(field, range_text(low, high), got);
}

Failure multiple(const std::string& field, int64_t got, int64_t step, int64_t most) {
  if (between(got, step, most) && got % step == 0) return {};
  return bad_plan(field, "a multiple of " + std::to_string(step) + " in " + range_text(step, most), got);
}

std::string hexadecimal(const uint8_t* bytes, int count) {
  static const char digits[] = "0123456789abcdef";
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += digits[bytes[i] >> 4];
    text += digits[bytes[i] & 15];
  }
  return text;
}

Failure check_header(const hj_plan_header& header, int64_t count) {
  if (header.magic != HJ_PLAN_MAGIC) return bad_plan("magic", std::to_string(HJ_PLAN_MAGIC), header.magic);
  if (header.total_bytes != count) return bad_plan("total_bytes", std::to_string(count), header.total_bytes);
  if (count % kBlock != 0) return bad_plan("total_bytes", "a multiple of 32", count);
  const std::string digest = hexadecimal(header.abi_digest, HJ_DIGEST_BYTES);
  if (digest != HAJAX_ABI_DIGEST) {
    return bad_plan("abi_digest", std::string(HAJAX_ABI_DIGEST) + " (this library's)", digest);
  }
  if (header.backend != kBackend_npu) {
    return bad_plan("backend", std::to_string(kBackend_npu) + " (npu)", header.backend);
  }
  for (const Failure& f : {in_range("decay", header.decay, kDecay_none, kDecay_per_channel),
                           in_range("delta", header.delta, 0, 1), in_range("strengths", header.strengths, 1, 2)}) {
    if (f.failed()) return f;
  }
  return {};
}

Failure check_operator(const hj_npu_plan& p) {
  for (const Failure& f :
       {multiple("chunk", p.chunk, kSide, kMostChunk), in_range("key_heads", p.key_heads, 1, kMostHeads),
        in_range("value_heads", p.value_heads, 1, kMostHeads), multiple("key_dim", p.key_dim, kSide, kMostDim),
        multiple("value_dim", p.value_dim, kSide, kMostDim), in_range("sequences", p.sequences, 1, kMostRows)}) {
    if (f.failed()) return f;
  }
  if (p.value_heads % p.key_heads != 0) {
    return bad_plan("value_heads", "a multiple of key_heads (" + std::to_string(p.key_heads) + ")", p.value_heads);
  }
  if (p.input_dtype != kDtype_float16) {
    return bad_plan("input_dtype", std::to_string(kDtype_float16) + " (float16)", p.input_dtype);
  }
  if (p.output_dtype != kDtype_float16 && p.output_dtype != kDtype_float32) {
    return bad_plan("output_dtype",
                    std::to_string(kDtype_float16) + " (float16) or " + std::to_string(kDtype_float32) + " (float32)",
                    p.output_dtype);
  }
  // Rows of fp32 are the longest that a copy has to skip.
  constexpr int64_t kFloatsInBlock = 8;
  for (const int64_t row : {int64_t{p.value_heads} * p.value_dim, int64_t{p.value_heads} * p.key_dim}) {
    if (row / kFloatsInBlock > kMostGap) {
      return bad_plan("value_heads", "rows of at most " + std::to_string(kMostGap * kFloatsInBlock) + " elements", row);
    }
  }
  return {};
}

// `count` structs of `size` bytes at `offset`.
Failure check_part(const hj_npu_plan& p, const std::string& field, int64_t offset, int64_t count, int64_t size) {
  const int64_t total = p.header.total_bytes;
  if (offset % kBlock != 0) return bad_plan(field, "a multiple of 32", offset);
  const auto least = static_cast<int64_t>(sizeof(hj_npu_plan));
  if (offset < least || offset > total || count > (total - offset) / size) {
    return bad_plan(field,
                    "room for " + std::to_string(count) + " times " + std::to_string(size) + " bytes within " +
                        range_text(least, total),
                    offset);
  }
  return {};
}

Failure check_parts(const hj_npu_plan& p, const uint8_t* bytes) {
  for (const Failure& f : {in_range("launches", p.launches, 1, INT32_MAX), in_range("items", p.items, 1, INT32_MAX),
                           in_range("programs", p.programs, 1, INT32_MAX),
                           check_part(p, "launch_offset", p.launch_offset, p.launches, sizeof(hj_npu_launch)),
                           check_part(p, "item_offset", p.item_offset, p.items, sizeof(hj_npu_item)),
                           check_part(p, "program_offset", p.program_offset, p.programs, sizeof(hj_npu_program)),
                           multiple("constant_bytes", p.constant_bytes, kBlock, INT32_MAX - kBlock + 1),
                           check_part(p, "constant_offset", p.constant_offset, p.constant_bytes, 1)}) {
    if (f.failed()) return f;
  }
  if (p.constant_bytes < HJ_ZERO_BYTES) {
    return bad_plan("constant_bytes", "at least " + std::to_string(HJ_ZERO_BYTES), p.constant_bytes);
  }
  for (int64_t i = 0; i < HJ_ZERO_BYTES; ++i) {
    if (bytes[p.constant_offset + i] != 0) {
      return bad_plan("constants, byte " + std::to_string(i), "0", bytes[p.constant_offset + i]);
    }
  }
  if (p.workspace_slot_bytes < 0 || p.workspace_slot_bytes % kBlock != 0) {
    return bad_plan("workspace_slot_bytes", "0 or a multiple of 32", p.workspace_slot_bytes);
  }
  if (memchr(p.target, 0, HJ_TARGET_NAME) == nullptr) return bad_plan("target", "a text that ends in 0", "none");
  return {};
}

template <typename T>
std::vector<T> copies(const uint8_t* bytes, int64_t offset, int64_t count) {
  std::vector<T> found(static_cast<size_t>(count));
  memcpy(found.data(), bytes + offset, found.size() * sizeof(T));
  return found;
}

Failure check_launch(const PlanView& view, const Chip& chip, const std::string& name, const hj_npu_launch& launch) {
  const int64_t most = chip.ai_cores < kMostCores ? chip.ai_cores : kMostCores;
  for (const Failure& f : {in_range(name + "cores", launch.cores, 1, most),
                           in_range(name + "first_item", launch.first_item, 0, view.plan.items - 1),
                           in_range(name + "sync_after", launch.sync_after, 0, 1)}) {
    if (f.failed()) return f;
  }
  int64_t room = view.plan.items - launch.first_item;
  for (int32_t core = 0; core < kMostCores; ++core) {
    const int64_t got = launch.core_items[core];
    const std::string field = name + "core_items[" + std::to_string(core) + "]";
    if (Failure f = in_range(field, got, 0, core < launch.cores ? room : 0); f.failed()) return f;
    room -= got;
  }
  return {};
}

// Of launches that are sound by themselves: what one needs of the next when both are one kernel.
Failure check_synced(const PlanView& view, size_t number, const std::string& name) {
  const hj_npu_launch& launch = view.launches[number];
  if (launch.sync_after == 0) return {};
  if (number + 1 == view.launches.size()) {
    return bad_plan(name + "sync_after", "0, as no launch follows", launch.sync_after);
  }
  const hj_npu_launch& next = view.launches[number + 1];
  if (next.cores == launch.cores) return {};
  return bad_plan(name + "cores", std::to_string(next.cores) + ", as the launch that follows in the same kernel has",
                  launch.cores);
}

// `back`: how many chunks before the item's first one its program's steps may read.
Failure check_item(const PlanView& view, const std::string& name, const hj_npu_item& item,
                   const std::vector<int64_t>& back) {
  const hj_npu_plan& p = view.plan;
  if (Failure f = in_range(name + "program", item.program, 0, p.programs - 1); f.failed()) return f;
  const hj_npu_program& program = view.programs[static_cast<size_t>(item.program)];
  for (const Failure& f :
       {in_range(name + "sequence", item.sequence, 0, p.sequences - 1),
        in_range(name + "head", item.head, 0, p.value_heads - program.heads),
        in_range(name + "column", item.column, 0, p.value_dim - program.columns),
        in_range(name + "first_chunk", item.first_chunk, back[static_cast<size_t>(item.program)], INT32_MAX)}) {
    if (f.failed()) return f;
  }
  if (item.column % kSide != 0) return bad_plan(name + "column", "a multiple of 16", item.column);
  if (item.chunks < -1 || item.chunks == 0) return bad_plan(name + "chunks", "-1, or 1 or more", item.chunks);
  return {};
}

Failure check_program(const PlanView& view, const Chip& chip, const std::string& name, const hj_npu_program& program) {
  const hj_npu_plan& p = view.plan;
  for (const Failure& f : {in_range(name + "heads", program.heads, 1, p.value_heads),
                           multiple(name + "columns", program.columns, kSide, p.value_dim),
                           in_range(name + "stages", stages_of(program), 1, HJ_STAGES),
                           in_range(name + "setup", program.setup, 0, chip.ub_bytes),
                           in_range(name + "body", program.body, 0, chip.ub_bytes),
                           in_range(name + "finish", program.finish, 0, chip.ub_bytes)}) {
    if (f.failed()) return f;
  }
  const int64_t steps = int64_t{program.setup} + program.body + program.finish;
  if (steps < 1) return bad_plan(name + "setup, body, finish", "at least one step", steps);
  const auto size = static_cast<int64_t>(sizeof(hj_step));
  const int64_t bytes = (steps * size + kBlock - 1) / kBlock * kBlock;
  if (Failure f = check_part(p, name + "step_offset", program.step_offset, bytes, 1); f.failed()) return f;
  const int64_t at = program.step_address;
  if (at % kBlock != 0 || at < HJ_FRAME_BYTES || at > chip.ub_bytes - bytes) {
    return bad_plan(name + "step_address",
                    "a multiple of 32 in " + range_text(HJ_FRAME_BYTES, chip.ub_bytes - bytes) + ", with room for " +
                        std::to_string(bytes) + " bytes of steps",
                    at);
  }
  return check_steps(view, chip, program, name);
}

// The last check: a field that cannot be is told by its name, this finds what only changes the result.
Failure check_sum(const PlanView& view) {
  constexpr auto kPlace = static_cast<int64_t>(offsetof(hj_npu_plan, checksum));
  constexpr uint8_t kZero[sizeof view.plan.checksum] = {};
  constexpr int64_t kBehind = kPlace + sizeof kZero;
  const uint32_t front = crc32(kZero, sizeof kZero, crc32(view.bytes, kPlace));
  const uint32_t sum = crc32(view.bytes + kBehind, view.plan.header.total_bytes - kBehind, front);
  if (sum == view.plan.checksum) return {};
  return bad_plan("checksum", std::to_string(sum) + " (of its bytes)", view.plan.checksum);
}

}  // namespace

Chip chip_of(const hj_target& target) {
  Chip chip;
  chip.npu_arch = target.npu_arch;
  chip.ai_cores = target.ai_cores;
  chip.l1_bytes = target.l1_bytes;
  chip.l0a_bytes = target.l0a_bytes;
  chip.l0b_bytes = target.l0b_bytes;
  chip.l0c_bytes = target.l0c_bytes;
  chip.ub_bytes = target.ub_bytes - target.ub_reserved_bytes;
  return chip;
}

Failure read_plan(const void* bytes, int64_t count, const Chip& chip, PlanView* view) {
  if (bytes == nullptr) return bad_plan("bytes", "an address", "null");
  if (count < static_cast<int64_t>(sizeof(hj_npu_plan))) {
    return bad_plan("size", "at least " + std::to_string(sizeof(hj_npu_plan)) + " bytes", count);
  }
  view->bytes = static_cast<const uint8_t*>(bytes);
  memcpy(&view->plan, bytes, sizeof(hj_npu_plan));
  const hj_npu_plan& p = view->plan;
  if (Failure f = check_header(p.header, count); f.failed()) return f;
  if (p.npu_arch != kArch || chip.npu_arch != kArch) {
    return wrong(kStatus_unsupported, "plan", "npu_arch", std::to_string(kArch) + " for plan and chip",
                 std::to_string(p.npu_arch) + " and " + std::to_string(chip.npu_arch));
  }
  if (Failure f = check_operator(p); f.failed()) return f;
  if (Failure f = check_parts(p, view->bytes); f.failed()) return f;
  view->launches = copies<hj_npu_launch>(view->bytes, p.launch_offset, p.launches);
  view->items = copies<hj_npu_item>(view->bytes, p.item_offset, p.items);
  view->programs = copies<hj_npu_program>(view->bytes, p.program_offset, p.programs);
  const auto name = [](const char* list, size_t i) { return std::string(list) + "[" + std::to_string(i) + "]."; };
  for (size_t i = 0; i < view->programs.size(); ++i) {
    if (Failure f = check_program(*view, chip, name("programs", i), view->programs[i]); f.failed()) return f;
  }
  std::vector<int64_t> back;
  for (const hj_npu_program& program : view->programs) back.push_back(chunks_back(*view, program));
  for (size_t i = 0; i < view->items.size(); ++i) {
    if (Failure f = check_item(*view, name("items", i), view->items[i], back); f.failed()) return f;
  }
  for (size_t i = 0; i < view->launches.size(); ++i) {
    if (Failure f = check_launch(*view, chip, name("launches", i), view->launches[i]); f.failed()) return f;
  }
  for (size_t i = 0; i < view->launches.size(); ++i) {
    if (Failure f = check_synced(*view, i, name("launches", i)); f.failed()) return f;
  }
  return check_sum(*view);
}

}  // namespace hajax::ascend::host
