// A program's steps, and what their opcodes are.
#ifndef HAJAX_NATIVE_ASCEND_HOST_STEP_KIND_H_
#define HAJAX_NATIVE_ASCEND_HOST_STEP_KIND_H_

#include "native/ascend/host/plan_view.h"

namespace hajax::ascend::host {

// The i-th step of a program whose sizes have been checked.
hj_step step_of(const PlanView& view, const hj_npu_program& program, int64_t i);

// The pipe of an opcode of opcodes.def, -1 for none.
int32_t pipe_of(int32_t opcode);
const char* opcode_name(int32_t opcode);

// Bytes of an element of each operand of a vector step, 0 for none.
struct Elements {
  int32_t dst = 0;
  int32_t src0 = 0;
  int32_t src1 = 0;
};

Elements elements_of(int32_t opcode);

}  // namespace hajax::ascend::host

#endif  // HAJAX_NATIVE_ASCEND_HOST_STEP_KIND_H_
