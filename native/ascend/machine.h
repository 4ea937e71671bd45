// The machine that walks a plan: one core's items, the sections of each one's program, the steps of a section.
#ifndef HAJAX_NATIVE_ASCEND_MACHINE_H_
#define HAJAX_NATIVE_ASCEND_MACHINE_H_

#include "native/ascend/fields.h"
#include "native/ascend/steps.h"

namespace hajax::ascend {

// Between two launches that are synced, the bottom of the frame is where cores meet.
constexpr uint32_t kMeetAt = 0;
static_assert(kMeetAt + HJ_MEETING_BYTES <= HJ_FRAME_BYTES, "");
static_assert(HJ_MEETING_BYTES == sizeof(hj_npu_launch::core_items) / sizeof(int32_t) * kBlock, "");

// `Code`: how programs are kept. Load() starts to bring one to the core and Take() has it there; Run() runs a section,
// with a barrier of all pipes at its end but for a body whose program Carries() flags from iteration to iteration.
template <typename Code>
class Machine {
 public:
  __aicore__ inline void Run(GM_ADDR plan, GM_ADDR call, GM_ADDR* tensors) {
    plan_ = plan;
    ReadPlan(call, tensors);
    for (;;) {
      for (int32_t i = 0; i < items_; ++i) RunItem(first_item_ + i);
      if (!synced_) return;
      Meet();
      launch_ += sizeof(hj_npu_launch);
      Fetch(kLaunchAt, launch_, sizeof(hj_npu_launch));
      AwaitFrame();
      ReadLaunch();
    }
  }

 private:
  __aicore__ inline void ReadPlan(GM_ADDR call, GM_ADDR* tensors) {
    Fetch(kPlanAt, plan_, sizeof(hj_npu_plan));
    Fetch(kCallAt, call, sizeof(hj_npu_call));
    AwaitFrame();
    const uint32_t launch = static_cast<uint32_t>(HAJAX_FIELD(kCallAt, hj_npu_call, launch));
    const uint32_t launches = static_cast<uint32_t>(HAJAX_FIELD(kPlanAt, hj_npu_plan, launch_offset));
    launch_ = plan_ + launches + launch * sizeof(hj_npu_launch);
    Fetch(kLaunchAt, launch_, sizeof(hj_npu_launch));
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
    meeting_ = tensors[kTensor_workspace] + HAJAX_FIELD(kCallAt, hj_npu_call, meeting_offset);
    for (uint32_t i = 0; i < kTensors; ++i) c_.tensor[i] = tensors[i];
    AwaitFrame();
    ReadLaunch();
  }

  __aicore__ inline void ReadLaunch() {
    const auto core = static_cast<uint32_t>(AscendC::GetBlockIdx());
    constexpr auto kShares = kLaunchAt + static_cast<uint32_t>(__builtin_offsetof(hj_npu_launch, core_items));
    first_item_ = HAJAX_FIELD(kLaunchAt, hj_npu_launch, first_item);
    for (uint32_t i = 0; i < core; ++i) first_item_ += Field<int32_t>(kShares + i * 4);
    items_ = Field<int32_t>(kShares + core * 4);
    synced_ = HAJAX_FIELD(kLaunchAt, hj_npu_launch, sync_after) != 0;
  }

  // All cores of the launch have come, and what they wrote to GM is there. Takes the place of masks and scalars.
  __aicore__ inline void Meet() {
    AscendC::TPipe pipe;  // SyncAll asks it for its flags' numbers; between programs all of them are free
    GlobalTensor<int32_t> shared;
    shared.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(meeting_), HJ_MEETING_BYTES / sizeof(int32_t));
    AscendC::SyncAll(shared, InUb<int32_t>(kMeetAt));
    ReleaseFrame();  // a device's scalar unit has looked there at what the others wrote
    program_ = -1;
  }

  __aicore__ inline void RunItem(int32_t item) {
    ReleaseFrame();
    Fetch(kItemAt, plan_ + item_offset_ + static_cast<uint32_t>(item) * sizeof(hj_npu_item), sizeof(hj_npu_item));
    AwaitFrame();
    const int32_t sequence = HAJAX_FIELD(kItemAt, hj_npu_item, sequence);
    Fetch(kSequenceAt, sequences_ + static_cast<uint32_t>(sequence) * sizeof(hj_npu_sequence), sizeof(hj_npu_sequence));
    const int32_t program = HAJAX_FIELD(kItemAt, hj_npu_item, program);
    const bool other = program != program_;
    if (other) {
      code_.Load(program, plan_ + program_offset_ + static_cast<uint32_t>(program) * sizeof(hj_npu_program));
    }
    AwaitFrame();
    if (other) {
      code_.Take(plan_, c_);
      core_.mask = HJ_MASKS;
      program_ = program;
      prepared_ = -1;
    }

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

  __aicore__ inline void RunSections() {
    // In setup the bits mean: only for the program's first item in a row, and versions of odd chunks.
    core_.at[0] = ChunkAt(0);
    core_.at[0].first = prepared_ != program_;
    core_.at[0].last = true;
    core_.at[1] = core_.at[0];
    core_.at[1].odd = 1;
    prepared_ = program_;
    code_.template Run<kSetup>(core_);
    const uint32_t stages = code_.Stages();
    for (uint32_t i = 0; i + 1 < chunks_ + stages; ++i) {
      for (uint32_t stage = 0; stage < stages; ++stage) core_.at[stage] = ChunkAt(i - stage);
      code_.template Run<kBody>(core_);
    }
    if (code_.Carries()) AscendC::PipeBarrier<PIPE_ALL>();
    core_.at[0] = ChunkAt(chunks_ - 1);
    code_.template Run<kFinish>(core_);
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

  Core core_;
  Context& c_ = core_.context;
  Code code_;
  GM_ADDR plan_ = nullptr;
  GM_ADDR launch_ = nullptr;
  GM_ADDR meeting_ = nullptr;
  GM_ADDR sequences_ = nullptr;
  uint32_t item_offset_ = 0;
  uint32_t program_offset_ = 0;
  int32_t first_item_ = 0;
  int32_t items_ = 0;
  bool synced_ = false;      // another launch follows this one
  int32_t program_ = -1;     // that the code has taken
  int32_t prepared_ = -1;    // whose setup ran last
  uint32_t all_chunks_ = 0;  // of the sequence
  uint32_t first_chunk_ = 0;
  uint32_t chunks_ = 0;
  uint32_t tail_rows_ = 0;
};

}  // namespace hajax::ascend

#endif  // HAJAX_NATIVE_ASCEND_MACHINE_H_
