// Programs as data: a program's steps lie in UB and are decoded every time they run.
#ifndef HAJAX_NATIVE_ASCEND_INTERPRETED_H_
#define HAJAX_NATIVE_ASCEND_INTERPRETED_H_

#include "native/ascend/fields.h"
#include "native/ascend/steps.h"

// A build may want to be told which step of which program runs.
#ifndef HAJAX_ON_STEP
#define HAJAX_ON_STEP(program, step)
#endif

namespace hajax::ascend {

// The words of a step in UB behind its first one.
struct LoadedWords {
  const LocalTensor<uint64_t>& steps;
  uint32_t at;

  __aicore__ inline uint64_t Second() const { return steps.GetValue(at + 1); }
  __aicore__ inline uint64_t Third() const { return steps.GetValue(at + 2); }
  __aicore__ inline uint64_t MaskHigh(uint32_t number) const { return Field<uint64_t>(kMasksAt + number * 16 + 8); }
  __aicore__ inline uint64_t MaskLow(uint32_t number) const { return Field<uint64_t>(kMasksAt + number * 16); }
  __aicore__ inline float Scalar(uint32_t number) const { return Field<float>(kScalarsAt + number * 4); }
};

class Interpreted {
 public:
  // Its sizes, masks and scalars; the steps need the sizes.
  __aicore__ inline void Load(int32_t number, GM_ADDR program) {
    program_ = number;
    Fetch(kProgramAt, program, kProgramHead);
    Fetch(kMasksAt, program + kProgramTail, sizeof(hj_npu_program) - kProgramTail);
  }

  __aicore__ inline void Take(GM_ADDR plan, Context& c) {
    setup_ = Unsigned(HAJAX_FIELD(kProgramAt, hj_npu_program, setup));
    body_ = Unsigned(HAJAX_FIELD(kProgramAt, hj_npu_program, body));
    finish_ = Unsigned(HAJAX_FIELD(kProgramAt, hj_npu_program, finish));
    const uint32_t stages = Unsigned(HAJAX_FIELD(kProgramAt, hj_npu_program, stages));
    stages_ = stages & ~uint32_t{HJ_CARRIES_FLAGS};
    carries_ = (stages & HJ_CARRIES_FLAGS) != 0;
    steps_ = Unsigned(HAJAX_FIELD(kProgramAt, hj_npu_program, step_address));
    const uint32_t bytes = (setup_ + body_ + finish_) * static_cast<uint32_t>(sizeof(hj_step));
    Fetch(steps_, plan + HAJAX_FIELD(kProgramAt, hj_npu_program, step_offset), (bytes + kBlock - 1) / kBlock * kBlock);
    c.l1_apart = Apart(kSpace_L1);
    c.l0a_apart = Apart(kSpace_L0A);
    c.l0b_apart = Apart(kSpace_L0B);
    c.l0c_apart = Apart(kSpace_L0C);
    c.ub_apart = Apart(kSpace_UB);
    AwaitFrame();
  }

  __aicore__ inline uint32_t Stages() const { return stages_; }
  __aicore__ inline bool Carries() const { return carries_; }

  template <Section section>
  __aicore__ inline void Run(Core& core) const {
    if constexpr (section == kSetup) RunSteps<section>(core, 0, setup_);
    if constexpr (section == kBody) RunSteps<section>(core, setup_, body_);
    if constexpr (section == kFinish) RunSteps<section>(core, setup_ + body_, finish_);
  }

 private:
  __aicore__ static inline uint32_t Apart(uint32_t space) {
    return Unsigned(
        Field<int32_t>(kProgramAt + static_cast<uint32_t>(__builtin_offsetof(hj_npu_program, slot_bytes)) + space * 4));
  }

  template <Section section>
  __aicore__ inline void RunSteps(Core& core, uint32_t first, uint32_t count) const {
    if (count == 0) return;
    const LocalTensor<uint64_t> steps = InUb<uint64_t>(steps_);
    const uint32_t end = (first + count) * HJ_STEP_WORDS;
    for (uint32_t i = first * HJ_STEP_WORDS; i < end; i += HJ_STEP_WORDS) {
      HAJAX_ON_STEP(program_, i / HJ_STEP_WORDS);
      Step step;
      step.first = steps.GetValue(i);
      WaitAll(step.Waits());
      Perform(core, step, core.ChunkOf<section>(step.Control()), {steps, i});
      SetAll(step.Sets());
    }
    if (section != kBody || !carries_) AscendC::PipeBarrier<PIPE_ALL>();
  }

  __aicore__ inline void Perform(Core& core, Step step, const Chunk& chunk, const LoadedWords& words) const {
    switch (step.Opcode()) {
#define OPCODE(number, name, pipe, meaning)   \
  case number:                                \
    core.Perform<number>(step, chunk, words); \
    break;
#include "hajax/abi/opcodes.def"
#undef OPCODE
      default:
        break;
    }
    if (step.Opcode() == kOp_sync && step.Count() != 0) {  // its flags are never skipped
      const uint64_t flags = words.Third();
      WaitAll(static_cast<uint32_t>(flags));
      SetAll(static_cast<uint32_t>(flags >> 32));
    }
  }

  int32_t program_ = -1;
  uint32_t setup_ = 0;
  uint32_t body_ = 0;
  uint32_t finish_ = 0;
  uint32_t stages_ = 1;
  bool carries_ = false;  // iterations end without a barrier
  uint32_t steps_ = 0;    // UB address
};

}  // namespace hajax::ascend

#endif  // HAJAX_NATIVE_ASCEND_INTERPRETED_H_
