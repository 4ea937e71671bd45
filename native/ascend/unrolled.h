// Programs as code: steps whose words are constants, one call after the other. Such code is written by
// hajax/plans/source.py, for programs that decoding bounds.
#ifndef HAJAX_NATIVE_ASCEND_UNROLLED_H_
#define HAJAX_NATIVE_ASCEND_UNROLLED_H_

#include "native/ascend/machine.h"

namespace hajax::ascend {

// Base of a program. It has kStages, kCarries, kL1Apart and its kin, Mask(at) and Scalar(number), and RunSetup(core),
// RunBody(core), RunFinish(core), which call Setup, Body and Finish with the words of each step.
template <typename Program>
struct Unrolled {
  template <uint64_t first, uint64_t second, uint64_t third>
  __aicore__ static inline void Setup(Core& core) {
    Run<kSetup, first, second, third>(core);
  }
  template <uint64_t first, uint64_t second, uint64_t third>
  __aicore__ static inline void Body(Core& core) {
    Run<kBody, first, second, third>(core);
  }
  template <uint64_t first, uint64_t second, uint64_t third>
  __aicore__ static inline void Finish(Core& core) {
    Run<kFinish, first, second, third>(core);
  }

 private:
  template <uint64_t second, uint64_t third, uint32_t mask, uint32_t scalar>
  struct Words {
    __aicore__ inline uint64_t Second() const { return second; }
    __aicore__ inline uint64_t Third() const { return third; }
    __aicore__ inline uint64_t MaskHigh(uint32_t) const {
      constexpr uint64_t bits = Program::Mask(2 * mask + 1);
      return bits;
    }
    __aicore__ inline uint64_t MaskLow(uint32_t) const {
      constexpr uint64_t bits = Program::Mask(2 * mask);
      return bits;
    }
    __aicore__ inline float Scalar(uint32_t) const {
      constexpr float value = Program::Scalar(scalar);
      return value;
    }
  };

  template <Section section, uint64_t first, uint64_t second, uint64_t third>
  __aicore__ static inline void Run(Core& core) {
    constexpr Step step = {first, second, third};
    WaitAll<step.Waits()>();
    core.Perform<step.Opcode()>(step, core.ChunkOf<section>(step.Control()),
                                Words<second, third, step.Index(), step.P(6)>());
    if constexpr (step.Opcode() == kOp_sync && step.Count() != 0) {
      WaitAll<static_cast<uint32_t>(third)>();
      SetAll<static_cast<uint32_t>(third >> 32)>();
    }
    SetAll<step.Sets()>();
  }
};

// The code of a plan with these programs, in their order.
template <typename... Programs>
class Specialised {
 public:
  __aicore__ inline void Load(int32_t program, GM_ADDR) { program_ = program; }

  __aicore__ inline void Take(GM_ADDR, Context& c) {
    int32_t number = 0;
    ((number++ == program_ ? Sizes<Programs>(c) : void()), ...);
  }

  __aicore__ inline uint32_t Stages() const { return stages_; }
  __aicore__ inline bool Carries() const { return carries_; }

  template <Section section>
  __aicore__ inline void Run(Core& core) const {
    int32_t number = 0;
    ((number++ == program_ ? RunOne<Programs, section>(core) : void()), ...);
  }

 private:
  template <typename Program>
  __aicore__ inline void Sizes(Context& c) {
    stages_ = Program::kStages;
    carries_ = Program::kCarries;
    c.l1_apart = Program::kL1Apart;
    c.l0a_apart = Program::kL0aApart;
    c.l0b_apart = Program::kL0bApart;
    c.l0c_apart = Program::kL0cApart;
    c.ub_apart = Program::kUbApart;
  }

  template <typename Program, Section section>
  __aicore__ static inline void RunOne(Core& core) {
    if constexpr (section == kSetup) Program::RunSetup(core);
    if constexpr (section == kBody) Program::RunBody(core);
    if constexpr (section == kFinish) Program::RunFinish(core);
  }

  int32_t program_ = -1;
  uint32_t stages_ = 1;
  bool carries_ = false;
};

}  // namespace hajax::ascend

#endif  // HAJAX_NATIVE_ASCEND_UNROLLED_H_
