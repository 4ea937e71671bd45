#include "native/ascend/host/step_kind.h"

#include <cstring>

namespace hajax::ascend::host {
namespace {

struct Kind {
  const char* name;
  int32_t pipe;
};

const Kind* kind_of(int32_t opcode) {
  switch (opcode) {
#define OPCODE(number, name, pipe, meaning)              \
  case number: {                                         \
    static constexpr Kind kKind = {#name, kPipe_##pipe}; \
    return &kKind;                                       \
  }
#include "hajax/abi/opcodes.def"
#undef OPCODE
    default:
      return nullptr;
  }
}

}  // namespace

hj_step step_of(const PlanView& view, const hj_npu_program& program, int64_t i) {
  hj_step step;
  memcpy(&step, view.bytes + program.step_offset + i * static_cast<int64_t>(sizeof step), sizeof step);
  return step;
}

int32_t pipe_of(int32_t opcode) {
  const Kind* kind = kind_of(opcode);
  return kind == nullptr ? -1 : kind->pipe;
}

const char* opcode_name(int32_t opcode) {
  const Kind* kind = kind_of(opcode);
  return kind == nullptr ? "none" : kind->name;
}

Elements elements_of(int32_t opcode) {
  switch (opcode) {
    case kOp_add32:
    case kOp_sub32:
    case kOp_mul32:
    case kOp_div32:
    case kOp_max32:
    case kOp_min32:
    case kOp_mla32:
      return {4, 4, 4};
    case kOp_add16:
    case kOp_sub16:
    case kOp_mul16:
      return {2, 2, 2};
    case kOp_muls16:
      return {2, 2, 0};
    case kOp_axpy16:
    case kOp_to32:
      return {4, 2, 0};
    case kOp_to16:
      return {2, 4, 0};
    case kOp_dup32:
      return {4, 0, 0};
    case kOp_dup16:
      return {2, 0, 0};
    default:
      return {4, 4, 0};
  }
}

}  // namespace hajax::ascend::host
