// The machine that walks a plan: one core's items, the sections of each one's program, the steps of a section.
#ifndef HAJAX_NATIVE_ASCEND_MACHINE_H_
#define HAJAX_NATIVE_ASCEND_MACHINE_H_

#include "native/ascend/cube.h"
#include "native/ascend/flags.h"
#include "native/ascend/moves.h"
#include "native/ascend/vectors.h"

namespace hajax::ascend {

constexpr uint32_t kFirstVectorStep = 32;

class Machine {
 public:
  __aicore__ inline void Run(GM_ADDR plan, GM_ADDR call, GM_ADDR* tensors) {
    plan_ = plan;
    ReadPlan(call, tensors);
    for (int32_t i = 0; i < items_; ++i) RunItem(first_item_ + i);
  }

 private:
  // Fields of the structs in the frame.
  template <typename T>
  __aicore__ static inline T Field(uint32_t at) {
    return InUb<T>(at / kBlock * kBlock).GetValue(at % kBlock / static_cast<uint32_t>(sizeof(T)));
  }
#define HAJAX_FIELD(base, type, name) \
  Field<decltype(type::name)>(base + static_cast<uint32_t>(__builtin_offsetof(type, name)))

  __aicore__ static inline void Fetch(uint32_t to, GM_ADDR from, uint32_t bytes) {
    DataCopy(InUb<half>(to), InGm(from), Runs(1, bytes / kBlock, 0, 0));
  }

  __aicore__ inline void ReadPlan(GM_ADDR call, GM_ADDR* tensors) {
    Fetch(kPlanAt, plan_, sizeof(hj_npu_plan));
    Fetch(kCallAt, call, sizeof(hj_npu_call));
    AwaitFrame();
    const uint32_t launch = static_cast<uint32_t>(HAJAX_FIELD(kCallAt, hj_npu_call, launch));
    const uint32_t launches = static_cast<uint32_t>(HAJAX_FIELD(kPlanAt, hj_npu_plan, launch_offset));
    Fetch(kLaunchAt, plan_ + launches + launch * sizeof(hj_npu_launch), sizeof(hj_npu_launch));
    c_.chunk = Unsigned(HAJAX_FIELD(kPlanAt, hj_npu_plan, chunk));
    c_.key_heads = Unsigned(HAJAX_FIELD(kPlanAt, hj_npu_plan, key_heads));
    c_.value_heads = Unsigned(HAJAX_FIELD(kPlanAt, hj_npu_plan, value_heads));
    c_.key_dim = Unsigned(HAJAX_FIELD(kPlanAt, hj_npu_plan, key_dim));
    c_.value_dim = Unsigned(HAJAX_FIELD(kPlanAt, hj_npu_plan, value_dim));
    c_.slot_bytes = Unsigned(HAJAX_FIELD(kPlanAt, hj_npu_plan, workspace_slot_bytes));
    c_.output_bytes = HAJAX_FIELD(kPlanAt, hj_npu_plan, output_dtype) == kDtype_float32 ? 4 : 2;
    c_.constants = plan_ + HAJAX_FIELD(kPlanAt, hj_npu_plan, constant_offset);
    item_offset_ = Unsigned(HAJAX_FIELD(kPlanAt, hj_npu_plan, item_offset));
    program_offset_ = Unsigned(HAJAX_FIELD(kPlanAt, hj_npu_plan, program_offset));
    const uint64_t group = c_.value_heads / c_.key_heads;
    c_.group_inverse = ((uint64_t{1} << 32) + group - 1) / group;
    c_.gates = static_cast<uint64_t>(HAJAX_FIELD(kCallAt, hj_npu_call, gates));
    c_.slots = c_.gates / c_.chunk;
    c_.scale = HAJAX_FIELD(kCallAt, hj_npu_call, scale);
    sequences_ = call + HAJAX_FIELD(kCallAt, hj_npu_call, sequence_offset);
    for (uint32_t i = 0; i < kTensors; ++i) c_.tensor[i] = tensors[i];
    AwaitFrame();
    const auto core = static_cast<uint32_t>(AscendC::GetBlockIdx());
    constexpr auto kShares = kLaunchAt + static_cast<uint32_t>(__builtin_offsetof(hj_npu_launch, core_items));
    first_item_ = HAJAX_FIELD(kLaunchAt, hj_npu_launch, first_item);
    for (uint32_t i = 0; i < core; ++i) first_item_ += Field<int32_t>(kShares + i * 4);
    items_ = Field<int32_t>(kShares + core * 4);
  }

  __aicore__ inline void RunItem(int32_t item) {
    ReleaseFrame();
    Fetch(kItemAt, plan_ + item_offset_ + static_cast<uint32_t>(item) * sizeof(hj_npu_item), sizeof(hj_npu_item));
    AwaitFrame();
    const int32_t sequence = HAJAX_FIELD(kItemAt, hj_npu_item, sequence);
    Fetch(kSequenceAt, sequences_ + static_cast<uint32_t>(sequence) * sizeof(hj_npu_sequence), sizeof(hj_npu_sequence));
    const int32_t program = HAJAX_FIELD(kItemAt, hj_npu_item, program);
    if (program != program_) FetchProgram(program);
    AwaitFrame();
    if (program != program_) ReadProgram(program);

    const uint32_t tokens = Unsigned(HAJAX_FIELD(kSequenceAt, hj_npu_sequence, tokens));
    const uint32_t first = Unsigned(HAJAX_FIELD(kItemAt, hj_npu_item, first_chunk));
    const int32_t most = HAJAX_FIELD(kItemAt, hj_npu_item, chunks);
    all_chunks_ = (tokens + c_.chunk - 1) / c_.chunk;
    first_chunk_ = first;
    tail_rows_ = tokens - (all_chunks_ - 1) * c_.chunk;
    if (first >= all_chunks_) return;
    chunks_ = all_chunks_ - first;
    if (most >= 0 && Unsigned(most) < chunks_) chunks_ = Unsigned(most);
    if (chunks_ == 0) return;
    c_.head = Unsigned(HAJAX_FIELD(kItemAt, hj_npu_item, head));
    c_.column = Unsigned(HAJAX_FIELD(kItemAt, hj_npu_item, column));
    c_.token = static_cast<uint64_t>(HAJAX_FIELD(kSequenceAt, hj_npu_sequence, token));
    c_.gate = static_cast<uint64_t>(HAJAX_FIELD(kSequenceAt, hj_npu_sequence, gate));
    c_.slot = c_.gate / c_.chunk;
    c_.state = Unsigned(HAJAX_FIELD(kSequenceAt, hj_npu_sequence, state));
    RunSections();
  }

  // Its sizes, masks and scalars; the steps need the sizes.
  __aicore__ inline void FetchProgram(int32_t program) {
    GM_ADDR from = plan_ + program_offset_ + static_cast<uint32_t>(program) * sizeof(hj_npu_program);
    Fetch(kProgramAt, from, kProgramHead);
    Fetch(kMasksAt, from + kProgramTail, sizeof(hj_npu_program) - kProgramTail);
  }

  __aicore__ inline void ReadProgram(int32_t program) {
    program_ = program;
    setup_ = Unsigned(HAJAX_FIELD(kProgramAt, hj_npu_program, setup));
    body_ = Unsigned(HAJAX_FIELD(kProgramAt, hj_npu_program, body));
    finish_ = Unsigned(HAJAX_FIELD(kProgramAt, hj_npu_program, finish));
    stages_ = Unsigned(HAJAX_FIELD(kProgramAt, hj_npu_program, stages));
    steps_ = Unsigned(HAJAX_FIELD(kProgramAt, hj_npu_program, step_address));
    const uint32_t bytes = (setup_ + body_ + finish_) * static_cast<uint32_t>(sizeof(hj_step));
    Fetch(steps_, plan_ + HAJAX_FIELD(kProgramAt, hj_npu_program, step_offset), (bytes + kBlock - 1) / kBlock * kBlock);
    c_.l1_apart = Apart(kSpace_L1);
    c_.l0a_apart = Apart(kSpace_L0A);
    c_.l0b_apart = Apart(kSpace_L0B);
    c_.l0c_apart = Apart(kSpace_L0C);
    c_.ub_apart = Apart(kSpace_UB);
    mask_ = HJ_MASKS;
    AwaitFrame();
  }

  __aicore__ static inline uint32_t Apart(uint32_t space) {
    return Unsigned(
        Field<int32_t>(kProgramAt + static_cast<uint32_t>(__builtin_offsetof(hj_npu_program, slot_bytes)) + space * 4));
  }

  __aicore__ inline void RunSections() {
    // In setup the bits mean: only for the program's first item in a row, and versions of odd chunks.
    at_[0] = ChunkAt(0);
    at_[0].first = prepared_ != program_;
    at_[0].last = true;
    at_[1] = at_[0];
    at_[1].odd = 1;
    prepared_ = program_;
    RunSection<kSetup>(0, setup_);
    for (uint32_t i = 0; i + 1 < chunks_ + stages_; ++i) {
      for (uint32_t stage = 0; stage < stages_; ++stage) at_[stage] = ChunkAt(i - stage);
      RunSection<kBody>(setup_, body_);
    }
    at_[0] = ChunkAt(chunks_ - 1);
    RunSection<kFinish>(setup_ + body_, finish_);
  }

  // The item's chunk of this number; one below 0 is far beyond the last.
  __aicore__ inline Chunk ChunkAt(uint32_t number) const {
    const uint32_t chunk = first_chunk_ + number;
    Chunk at;
    at.active = number < chunks_;
    at.first = chunk == 0;
    at.last = chunk == all_chunks_ - 1;
    at.odd = number & 1;
    at.token = chunk * c_.chunk;
    at.rows = at.last ? tail_rows_ : c_.chunk;
    return at;
  }

  enum Section { kSetup, kBody, kFinish };

  template <Section section>
  __aicore__ inline void RunSection(uint32_t first, uint32_t count) {
    if (count == 0) return;
    const LocalTensor<uint64_t> steps = InUb<uint64_t>(steps_);
    const uint32_t end = (first + count) * HJ_STEP_WORDS;
    for (uint32_t i = first * HJ_STEP_WORDS; i < end; i += HJ_STEP_WORDS) {
      Step step;
      step.first = steps.GetValue(i);
      const uint32_t control = step.Control();
      c_.at = at_[section == kBody    ? control & HJ_STAGE_MASK
                  : section == kSetup ? (control & HJ_LAST_CHUNK) / HJ_LAST_CHUNK
                                      : 0];
      WaitAll(step.Waits());
      const bool wanted = c_.at.active && (c_.at.first || (control & HJ_FIRST_CHUNK) == 0) &&
                          (c_.at.last || (control & HJ_LAST_CHUNK) == 0);
      // As flags, a barrier is never skipped: it orders what later steps of other stages find.
      if ((control & HJ_BARRIER_BEFORE) != 0) Barrier(step.Opcode());
      if (step.Opcode() == kOp_sync) {
        RunSync(step, steps, i);
      } else if (wanted) {
        RunStep(step, steps, i);
      }
      SetAll(step.Sets());
    }
    AscendC::PipeBarrier<PIPE_ALL>();
  }

  // Flags are never skipped.
  __aicore__ inline void RunSync(Step& step, const LocalTensor<uint64_t>& steps, uint32_t at) {
    if (step.Count() == 0) return;
    step.third = steps.GetValue(at + 2);
    WaitAll(static_cast<uint32_t>(step.third));
    SetAll(static_cast<uint32_t>(step.third >> 32));
  }

  __aicore__ inline void RunStep(Step& step, const LocalTensor<uint64_t>& steps, uint32_t at) {
    step.second = steps.GetValue(at + 1);
    switch (step.Opcode()) {
      case kOp_constant_to_l1:
        return ConstantToL1(c_, step);
      case kOp_constant_to_ub:
        return ConstantToUb(c_, step);
      default:
        break;
    }
    step.third = steps.GetValue(at + 2);
    switch (step.Opcode()) {
      case kOp_rows_to_l1:
        return RowsToL1(c_, step);
      case kOp_rows_to_ub:
        return RowsToUb(c_, step);
      case kOp_gate_to_ub:
        return GateToUb(c_, step);
      case kOp_workspace_to_l1:
        return WorkspaceToL1(c_, step);
      case kOp_workspace_to_ub:
        return WorkspaceToUb(c_, step);
      case kOp_load_a:
        return Load<true>(c_, step);
      case kOp_load_b:
        return Load<false>(c_, step);
      case kOp_l1_to_ub:
        return L1ToUb(c_, step);
      case kOp_mmad:
        return Multiply(c_, step);
      case kOp_c_to_ub32:
        return ResultToUb<float>(c_, step);
      case kOp_c_to_ub16:
        return ResultToUb<half>(c_, step);
      case kOp_ub_to_c32:
        return ResultFromUb(c_, step);
      case kOp_ub_to_l1:
        return UbToL1(c_, step);
      case kOp_rows_from_ub:
        return RowsFromUb(c_, step);
      case kOp_workspace_from_ub:
        return WorkspaceFromUb(c_, step);
      default:
        return RunVector(step);
    }
  }

  __aicore__ inline void RunVector(const Step& step) {
    if (step.Index() != mask_) {
      mask_ = step.Index();
      const uint32_t at = kMasksAt + mask_ * 16;
      AscendC::SetVectorMask<half>(Field<uint64_t>(at + 8), Field<uint64_t>(at));
    }
    const uint32_t number = step.P(6);
    float scalar = c_.scale;
    if (number != 0 && TakesScalar(step.Opcode())) scalar = Field<float>(kScalarsAt + number * 4);
    Compute(step.Opcode(), Lanes(c_, step), scalar);
  }

  __aicore__ static inline uint32_t Unsigned(int32_t value) { return static_cast<uint32_t>(value); }

#undef HAJAX_FIELD

  Context c_;
  GM_ADDR plan_ = nullptr;
  GM_ADDR sequences_ = nullptr;
  uint32_t item_offset_ = 0;
  uint32_t program_offset_ = 0;
  int32_t first_item_ = 0;
  int32_t items_ = 0;
  int32_t program_ = -1;   // whose steps are in UB
  int32_t prepared_ = -1;  // whose setup ran last
  uint32_t setup_ = 0;
  uint32_t body_ = 0;
  uint32_t finish_ = 0;
  uint32_t stages_ = 1;
  uint32_t steps_ = 0;        // UB address
  uint32_t mask_ = HJ_MASKS;  // number of the one that is set
  uint32_t all_chunks_ = 0;   // of the sequence
  uint32_t first_chunk_ = 0;
  uint32_t chunks_ = 0;
  uint32_t tail_rows_ = 0;
  Chunk at_[HJ_STAGES];
};

}  // namespace hajax::ascend

#endif  // HAJAX_NATIVE_ASCEND_MACHINE_H_
