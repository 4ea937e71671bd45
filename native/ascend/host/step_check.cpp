#include "native/ascend/host/step_check.h"

#include <algorithm>
#include <string>
#include <utility>

#include "native/ascend/host/step_kind.h"

namespace hajax::ascend::host {
namespace {

constexpr int64_t kBlock = HJ_ADDRESS_UNIT;
constexpr int64_t kSide = 16;
constexpr int64_t kHalfFractal = 512;
constexpr int64_t kFloatFractal = 1024;
constexpr int64_t kMostRepeats = 255;
constexpr int64_t kMostBlocks = 65535;  // of 32 bytes in one run of a copy
constexpr int64_t kMostDepth = 255;     // blocks of k in one product

int32_t wide(const hj_step& step, int at) { return step.p[at] | step.p[at + 1] << 8; }

// From the first to behind the last of `count` things of `size`, `stride` apart.
int64_t extent(int64_t count, int64_t size, int64_t stride) { return (count - 1) * stride + size; }

class StepCheck {
 public:
  StepCheck(const PlanView& view, const Chip& chip, const hj_npu_program& program, std::string where,
            const hj_step& step)
      : view_(view), plan_(view.plan), chip_(chip), program_(program), where_(std::move(where)), s_(step) {}

  Failure check() const {
    constexpr int kKnownControl = HJ_STAGE_MASK | HJ_BARRIER_BEFORE | HJ_FIRST_CHUNK | HJ_LAST_CHUNK;
    if ((s_.control & ~kKnownControl) != 0) return bad("control", "no bits but those of plan.h", s_.control);
    if ((s_.control & HJ_STAGE_MASK) >= HJ_STAGES) return bad("control", "a stage of 0..2", s_.control);
    switch (s_.opcode) {
      case kOp_sync:
        return check_sync();
      case kOp_rows_to_l1:
      case kOp_rows_to_ub:
      case kOp_rows_from_ub:
        return check_rows();
      case kOp_gate_to_ub:
        return check_gate();
      case kOp_constant_to_l1:
      case kOp_constant_to_ub:
        return check_constant();
      case kOp_workspace_to_l1:
      case kOp_workspace_to_ub:
      case kOp_workspace_from_ub:
        return check_workspace();
      case kOp_load_a:
      case kOp_load_b:
        return check_load();
      case kOp_l1_to_ub:
      case kOp_ub_to_l1:
        return check_blocks();
      case kOp_mmad:
        return check_product();
      case kOp_c_to_ub32:
      case kOp_c_to_ub16:
      case kOp_ub_to_c32:
        return check_result();
      default:
        return check_vector();
    }
  }

 private:
  Failure bad(const std::string& field, const std::string& expected, int64_t got) const {
    return bad_plan(where_ + field, expected, got);
  }
  Failure in_range(const char* field, int64_t got, int64_t low, int64_t high) const {
    return got >= low && got <= high ? Failure{} : bad(field, range_text(low, high), got);
  }

  int64_t size_of(Space space) const {
    switch (space) {
      case kSpace_L1:
        return chip_.l1_bytes;
      case kSpace_L0A:
        return chip_.l0a_bytes;
      case kSpace_L0B:
        return chip_.l0b_bytes;
      case kSpace_L0C:
        return chip_.l0c_bytes;
      default:
        return chip_.ub_bytes;
    }
  }

  static int64_t alignment_of(Space space) {
    if (space == kSpace_L0C) return kFloatFractal;
    return space == kSpace_L0A || space == kSpace_L0B ? kHalfFractal : kBlock;
  }

  // `bytes` from an address word on, in both versions when it alternates; the kernel's own part of UB is not for steps.
  Failure place(const char* field, Space space, uint16_t word, int64_t bytes) const {
    const int64_t start = (word & (HJ_ALTERNATES - 1)) * kBlock;
    const int64_t apart = program_.slot_bytes[space];
    if ((word & HJ_ALTERNATES) != 0 && (apart < kBlock || apart > size_of(space))) {
      return bad_plan(
          where_ + field,
          "slot_bytes of the memory in " + range_text(kBlock, size_of(space)) + ", as the address alternates", apart);
    }
    for (const int64_t at : {start, (word & HJ_ALTERNATES) != 0 ? start + apart : start}) {
      if (at % alignment_of(space) != 0) {
        return bad(field, "an address that is a multiple of " + std::to_string(alignment_of(space)), at);
      }
      if (at + bytes > size_of(space)) {
        return bad(field, "an end of at most " + std::to_string(size_of(space)) + " bytes", at + bytes);
      }
      if (space != kSpace_UB) continue;
      const int64_t steps = program_.step_address;
      const int64_t size = (int64_t{program_.setup} + program_.body + program_.finish) * int64_t{sizeof(hj_step)};
      if (at < HJ_FRAME_BYTES) return bad(field, "an address of at least " + std::to_string(HJ_FRAME_BYTES), at);
      if (at < steps + size && at + bytes > steps) {
        return bad(field, "bytes apart from the steps' " + range_text(steps, steps + size - 1), at);
      }
    }
    return {};
  }

  Failure check_sync() const {
    if ((s_.control & HJ_BARRIER_BEFORE) != 0) return bad("control", "no barrier", s_.control);
    return in_range("count", s_.count, 0, 1);
  }

  Failure check_head() const { return in_range("p[1] (head)", s_.p[1], 0, program_.heads - 1); }

  // The tensor, and whether this opcode moves it.
  Failure check_tensor(bool to_l1, bool out) const {
    const int32_t tensor = s_.p[0];
    const bool half = tensor == kTensor_query || tensor == kTensor_key || tensor == kTensor_value;
    const bool state = tensor == kTensor_state_in || tensor == kTensor_state_out;
    const bool readable = half || state || (tensor == kTensor_log_decay && view_.per_channel());
    const bool fits = out ? tensor == kTensor_output || tensor == kTensor_state_out : to_l1 ? half : readable;
    if (!fits) return bad("p[0] (tensor)", "one of tensors.def that this opcode moves", tensor);
    const int64_t rows = to_l1 ? 0 : s_.p[4];
    if (rows != (state ? 1 : 0)) return bad("p[4]", state ? "1, the state's rows" : "0, the chunk's tokens", rows);
    if (out) {
      const int64_t bytes = tensor == kTensor_output ? view_.output_bytes() : 4;
      if (s_.p[7] != bytes) return bad("p[7] (bytes of an element)", std::to_string(bytes), s_.p[7]);
    }
    return {};
  }

  Failure check_rows() const {
    const bool to_l1 = s_.opcode == kOp_rows_to_l1;
    const bool out = s_.opcode == kOp_rows_from_ub;
    for (const Failure& f : {check_tensor(to_l1, out), check_head()}) {
      if (f.failed()) return f;
    }
    const int32_t tensor = s_.p[0];
    const bool keyed = tensor == kTensor_query || tensor == kTensor_key || tensor == kTensor_log_decay;
    const int64_t blocks = (keyed ? plan_.key_dim : program_.columns) / kSide;
    if (Failure f = in_range("count", s_.count, 1, blocks); f.failed()) return f;
    if (Failure f = in_range("p[2] (column block)", s_.p[2], 0, blocks - s_.count); f.failed()) return f;
    int64_t rows = plan_.chunk;
    if (!to_l1 && s_.p[4] == 1) {
      const int64_t most = plan_.key_dim / kSide;
      if (Failure f = in_range("p[5] (row block)", s_.p[5], 0, most - 1); f.failed()) return f;
      rows = (s_.p[6] != 0 ? s_.p[6] : most) * kSide;
      if (Failure f = in_range("p[6] (row blocks)", rows / kSide, 1, most - s_.p[5]); f.failed()) return f;
    }
    if (to_l1) return place("dst", kSpace_L1, s_.dst, rows * s_.count * kBlock);
    if (Failure f = in_range("p[3] (layout)", s_.p[3], 0, out ? 2 : 1); f.failed()) return f;
    const bool half = tensor == kTensor_query || tensor == kTensor_key || tensor == kTensor_value ||
                      (tensor == kTensor_output && view_.output_bytes() == 2);
    const int64_t bytes = rows * s_.count * kSide * (half ? 2 : 4);
    return out ? place("src0", kSpace_UB, s_.src0, bytes) : place("dst", kSpace_UB, s_.dst, bytes);
  }

  Failure check_gate() const {
    const int32_t tensor = s_.p[0];
    const bool known =
        tensor == kTensor_beta || tensor == kTensor_erase || (tensor == kTensor_log_decay && !view_.per_channel());
    if (!known) return bad("p[0] (tensor)", "a head-major one of tensors.def", tensor);
    if (Failure f = check_head(); f.failed()) return f;
    return place("dst", kSpace_UB, s_.dst, plan_.chunk * 4);
  }

  Failure check_constant() const {
    if (Failure f = in_range("size", s_.size, 1, kMostBlocks); f.failed()) return f;
    if (Failure f = in_range("src0 + size", s_.src0 + s_.size, 1, plan_.constant_bytes / kBlock); f.failed()) return f;
    const Space space = s_.opcode == kOp_constant_to_l1 ? kSpace_L1 : kSpace_UB;
    return place("dst", space, s_.dst, s_.size * kBlock);
  }

  Failure check_workspace() const {
    const bool out = s_.opcode == kOp_workspace_from_ub;
    const int64_t at = out ? s_.dst : s_.src0;
    if (Failure f = check_head(); f.failed()) return f;
    if (Failure f = in_range("size", s_.size, 1, kMostBlocks); f.failed()) return f;
    if (Failure f = in_range("offset + size", at + s_.size, 1, plan_.workspace_slot_bytes / kBlock); f.failed()) {
      return f;
    }
    if (out && wide(s_, 2) != 0) return bad("p[2] | p[3] << 8 (chunks back)", "0, as it writes", wide(s_, 2));
    const int64_t columns = (plan_.value_dim - program_.columns) / kSide;
    const int64_t room = plan_.workspace_slot_bytes / kBlock - at - s_.size;
    if (columns * wide(s_, 4) > room) {
      return bad("p[4] | p[5] << 8 (for 16 columns)", range_text(0, room / columns), wide(s_, 4));
    }
    if (out) return place("src0", kSpace_UB, s_.src0, s_.size * kBlock);
    const Space space = s_.opcode == kOp_workspace_to_l1 ? kSpace_L1 : kSpace_UB;
    return place("dst", space, s_.dst, s_.size * kBlock);
  }

  Failure check_load() const {
    if (Failure f = in_range("count", s_.count, 1, UINT8_MAX); f.failed()) return f;
    if (Failure f = in_range("size", s_.size, 1, kMostRepeats); f.failed()) return f;
    if (Failure f = in_range("p[4]", s_.p[4], 0, 3); f.failed()) return f;
    const int64_t group = extent(s_.size, 1, s_.p[0]);
    const int64_t grown = (s_.p[4] & 2) != 0 ? (s_.count - 1) * (s_.count - 2) / 2 : 0;
    const int64_t low = wide(s_, 5);
    const int64_t src = extent(s_.count, group, wide(s_, 1)) + grown + low;
    const int64_t dst = extent(s_.count, s_.size, s_.p[3]) + (low != 0 ? s_.p[7] : 0);
    if (Failure f = place("src0", kSpace_L1, s_.src0, src * kHalfFractal); f.failed()) return f;
    return place("dst", s_.opcode == kOp_load_a ? kSpace_L0A : kSpace_L0B, s_.dst, dst * kHalfFractal);
  }

  Failure check_blocks() const {
    if (Failure f = in_range("count", s_.count, 1, UINT8_MAX); f.failed()) return f;
    if (Failure f = in_range("size", s_.size, 1, kMostBlocks); f.failed()) return f;
    const bool to_l1 = s_.opcode == kOp_ub_to_l1;
    const int64_t src = extent(s_.count, s_.size, s_.size + wide(s_, 0)) * kBlock;
    const int64_t dst = extent(s_.count, s_.size, s_.size + wide(s_, 2)) * kBlock;
    if (Failure f = place("src0", to_l1 ? kSpace_UB : kSpace_L1, s_.src0, src); f.failed()) return f;
    return place("dst", to_l1 ? kSpace_L1 : kSpace_UB, s_.dst, dst);
  }

  Failure check_product() const {
    if (Failure f = in_range("count", s_.count, 1, UINT8_MAX); f.failed()) return f;
    for (int i = 0; i < 3; ++i) {
      const std::string field = "p[" + std::to_string(i) + "] (blocks of 16)";
      if (Failure f = in_range(field.c_str(), s_.p[i], 1, kMostDepth); f.failed()) return f;
    }
    if (Failure f = in_range("p[6]", s_.p[6], 0, 127); f.failed()) return f;
    const Extents most = (s_.p[6] & 16) != 0 ? triangle() : products();
    if (most.depth > kMostDepth) return bad("p[2] (blocks of 16)", "at most 255 in the last product", most.depth);
    if (most.width > kMostDepth) return bad("p[1] (blocks of 16)", "at most 255 in the last product", most.width);
    if (Failure f = place("src0", kSpace_L0A, s_.src0, (most.left + s_.p[7]) * kHalfFractal); f.failed()) return f;
    if (Failure f = place("src1", kSpace_L0B, s_.src1, (most.right + s_.index) * kHalfFractal); f.failed()) return f;
    return place("dst", kSpace_L0C, s_.dst, most.tile * kFloatFractal);
  }

  // Fractals behind the last one that a product step touches, and its last product's blocks.
  struct Extents {
    int64_t tile = 0, left = 0, right = 0, width = 0, depth = 0;
  };

  Extents triangle() const {
    const int64_t m = s_.p[0], n = s_.p[1], k = s_.p[2], rows = s_.count;
    const int64_t products = rows * (rows + 1) / 2;
    return {(products - 1) * s_.p[3] + m * n, (rows - 1) * s_.p[4] + m * k, (rows - 1) * s_.p[5] + k * n, n, k};
  }

  Extents products() const {
    Extents most;
    const int how = s_.p[6];
    const int64_t m = s_.p[0];
    int64_t n = s_.p[1], k = s_.p[2], tile = 0, left = 0, right = 0;
    for (int64_t i = 0; i < s_.count; ++i) {
      most.tile = std::max(most.tile, tile + m * n);
      most.left = std::max(most.left, left + m * k);
      most.right = std::max(most.right, right + k * n);
      most.width = n;
      most.depth = k;
      tile += s_.p[3] + ((how & 8) != 0 ? n : 0);
      left += s_.p[4] + ((how & 64) != 0 ? k : 0);
      right += s_.p[5] + ((how & 32) != 0 ? n * k : 0);
      if ((how & 8) != 0) ++n;
      if ((how & 2) != 0) ++k;
    }
    return most;
  }

  Failure check_result() const {
    if (Failure f = in_range("count", s_.count, 1, UINT8_MAX); f.failed()) return f;
    if (Failure f = in_range("size", s_.size, 1, kMostBlocks); f.failed()) return f;
    const bool to_ub = s_.opcode != kOp_ub_to_c32;
    const int64_t in_ub = s_.opcode == kOp_c_to_ub16 ? kHalfFractal : kFloatFractal;
    const int64_t src = extent(s_.count, s_.size, s_.size + s_.p[0]) * (to_ub ? kFloatFractal : in_ub);
    const int64_t dst = extent(s_.count, s_.size, s_.size + s_.p[1]) * (to_ub ? in_ub : kFloatFractal);
    if (Failure f = place("src0", to_ub ? kSpace_L0C : kSpace_UB, s_.src0, src); f.failed()) return f;
    return place("dst", to_ub ? kSpace_UB : kSpace_L0C, s_.dst, dst);
  }

  // The highest lane that the step's mask has on, or -1 when the mask is none for so many lanes.
  int64_t highest_lane(bool halves) const {
    const uint64_t low = program_.masks[2 * s_.index];
    const uint64_t high = program_.masks[2 * s_.index + 1];
    const auto top = [](uint64_t bits) { return int64_t{63} - __builtin_clzll(bits); };
    if (halves) return high != 0 ? 64 + top(high) : low != 0 ? top(low) : -1;
    const bool all = low == UINT64_MAX && high == UINT64_MAX;
    return low == 0 || (high != 0 && !all) ? -1 : top(low);
  }

  Failure check_vector() const {
    if (Failure f = in_range("size", s_.size, 1, kMostRepeats); f.failed()) return f;
    if (Failure f = in_range("index (mask)", s_.index, 0, HJ_MASKS - 1); f.failed()) return f;
    if (Failure f = in_range("p[6] (scalar)", s_.p[6], 0, HJ_SCALARS - 1); f.failed()) return f;
    const Elements e = elements_of(s_.opcode);
    const bool halves = e.dst != 4 && e.src0 != 4;
    const int64_t lane = highest_lane(halves);
    if (lane < 0) {
      return bad("index (mask)", halves ? "a mask with lanes" : "a mask of 64 lanes, one of them on", s_.index);
    }
    const auto bytes = [&](int64_t element, int at) {
      const int64_t block = lane * element / kBlock;
      return ((s_.size - 1) * s_.p[3 + at] + block * s_.p[at] + 1) * kBlock;
    };
    const bool sums = s_.opcode == kOp_cadd32;
    if (!sums && lane * e.dst / kBlock > 0 && s_.p[0] == 0) return bad("p[0] (block stride)", "1 or more", 0);
    if (e.src0 != 0) {
      if (Failure f = place("src0", kSpace_UB, s_.src0, bytes(e.src0, 1)); f.failed()) return f;
    }
    if (e.src1 != 0) {
      if (Failure f = place("src1", kSpace_UB, s_.src1, bytes(e.src1, 2)); f.failed()) return f;
    }
    return place("dst", kSpace_UB, s_.dst, sums ? s_.size * 4 : bytes(e.dst, 0));
  }

  const PlanView& view_;
  const hj_npu_plan& plan_;
  const Chip& chip_;
  const hj_npu_program& program_;
  std::string where_;
  hj_step s_;
};

}  // namespace

Failure check_steps(const PlanView& view, const Chip& chip, const hj_npu_program& program, const std::string& name) {
  for (int32_t space = 0; space < static_cast<int32_t>(sizeof program.slot_bytes / sizeof(int32_t)); ++space) {
    const int64_t apart = program.slot_bytes[space];
    if (apart < 0 || apart % kBlock != 0) {
      return bad_plan(name + "slot_bytes[" + std::to_string(space) + "]", "0 or a multiple of 32", apart);
    }
  }
  if (program.masks[0] != UINT64_MAX || program.masks[1] != UINT64_MAX) {
    return bad_plan(name + "masks[0]", "all lanes", "another mask");
  }
  const int64_t steps = int64_t{program.setup} + program.body + program.finish;
  for (int64_t i = 0; i < steps; ++i) {
    const hj_step step = step_of(view, program, i);
    const std::string where = name + "steps[" + std::to_string(i) + "]";
    if (pipe_of(step.opcode) < 0) {
      return bad_plan(where + ".opcode", "a number of opcodes.def", step.opcode);
    }
    const StepCheck one(view, chip, program, where + " (" + opcode_name(step.opcode) + ").", step);
    if (Failure f = one.check(); f.failed()) return f;
    const bool in_body = i >= program.setup && i < int64_t{program.setup} + program.body;
    if (in_body && (step.control & HJ_STAGE_MASK) >= stages_of(program)) {
      return bad_plan(where + ".control", "a stage below the program's " + std::to_string(stages_of(program)),
                      step.control);
    }
  }
  return check_flags(view, program, name);
}

int64_t chunks_back(const PlanView& view, const hj_npu_program& program) {
  const int64_t steps = int64_t{program.setup} + program.body + program.finish;
  int64_t most = 0;
  for (int64_t i = 0; i < steps; ++i) {
    const hj_step step = step_of(view, program, i);
    if (step.opcode == kOp_workspace_to_l1 || step.opcode == kOp_workspace_to_ub) {
      most = std::max<int64_t>(most, wide(step, 2));
    }
  }
  return most;
}

}  // namespace hajax::ascend::host
