// A decoded step: whether its chunk is there, and its work. Where its words come from is the caller's.
#ifndef HAJAX_NATIVE_ASCEND_STEPS_H_
#define HAJAX_NATIVE_ASCEND_STEPS_H_

#include "native/ascend/cube.h"
#include "native/ascend/flags.h"
#include "native/ascend/moves.h"
#include "native/ascend/vectors.h"

namespace hajax::ascend {

enum Section { kSetup, kBody, kFinish };

// What steps find and leave on their core.
struct Core {
  Context context;
  Chunk at[HJ_STAGES];       // by stage; setup: even and odd versions; finish: the first one
  uint32_t mask = HJ_MASKS;  // number of the one that is set

  template <Section section>
  __aicore__ inline const Chunk& ChunkOf(uint32_t control) const {
    return at[section == kBody    ? control & HJ_STAGE_MASK
              : section == kSetup ? (control & HJ_LAST_CHUNK) / HJ_LAST_CHUNK
                                  : 0];
  }

  // `Words`: Second() and Third() of the step, and of the program its MaskHigh(number), MaskLow(number) and
  // Scalar(number). Each is asked for when it is needed, and once: it may be a load.
  template <uint32_t opcode, typename Words>
  __aicore__ inline void Perform(Step step, const Chunk& chunk, const Words& words) {
    const uint32_t control = step.Control();
    // As flags, a barrier is never skipped: it orders what later steps of other stages find.
    if ((control & HJ_BARRIER_BEFORE) != 0) Barrier<opcode>();
    if constexpr (opcode != kOp_sync) {
      if (!chunk.active || (!chunk.first && (control & HJ_FIRST_CHUNK) != 0) ||
          (!chunk.last && (control & HJ_LAST_CHUNK) != 0)) {
        return;
      }
      context.at = chunk;
      step.second = words.Second();
      if constexpr (opcode != kOp_constant_to_l1 && opcode != kOp_constant_to_ub) step.third = words.Third();
      if constexpr (opcode < kFirstVectorStep) {
        Move<opcode>(step);
      } else {
        Vector<opcode>(step, words);
      }
    }
  }

 private:
  template <uint32_t opcode>
  __aicore__ inline void Move(const Step& step) {
    const Context& c = context;
    if constexpr (opcode == kOp_rows_to_l1) RowsToL1(c, step);
    if constexpr (opcode == kOp_rows_to_ub) RowsToUb(c, step);
    if constexpr (opcode == kOp_gate_to_ub) GateToUb(c, step);
    if constexpr (opcode == kOp_constant_to_l1) ConstantToL1(c, step);
    if constexpr (opcode == kOp_constant_to_ub) ConstantToUb(c, step);
    if constexpr (opcode == kOp_workspace_to_l1) WorkspaceToL1(c, step);
    if constexpr (opcode == kOp_workspace_to_ub) WorkspaceToUb(c, step);
    if constexpr (opcode == kOp_load_a) Load<true>(c, step);
    if constexpr (opcode == kOp_load_b) Load<false>(c, step);
    if constexpr (opcode == kOp_l1_to_ub) L1ToUb(c, step);
    if constexpr (opcode == kOp_mmad) Multiply(c, step);
    if constexpr (opcode == kOp_c_to_ub32) ResultToUb<float>(c, step);
    if constexpr (opcode == kOp_c_to_ub16) ResultToUb<half>(c, step);
    if constexpr (opcode == kOp_ub_to_c32) ResultFromUb(c, step);
    if constexpr (opcode == kOp_ub_to_l1) UbToL1(c, step);
    if constexpr (opcode == kOp_rows_from_ub) RowsFromUb(c, step);
    if constexpr (opcode == kOp_workspace_from_ub) WorkspaceFromUb(c, step);
  }

  template <uint32_t opcode, typename Words>
  __aicore__ inline void Vector(const Step& step, const Words& words) {
    if (step.Index() != mask) {
      mask = step.Index();
      const uint64_t high = words.MaskHigh(mask);
      AscendC::SetVectorMask<half>(high, words.MaskLow(mask));
    }
    float scalar = context.scale;
    if constexpr (TakesScalar(opcode)) {
      if (step.P(6) != 0) scalar = words.Scalar(step.P(6));
    }
    Compute<opcode>(Lanes(context, step), scalar);
  }
};

}  // namespace hajax::ascend

#endif  // HAJAX_NATIVE_ASCEND_STEPS_H_
