// A plan for an NPU, read from bytes that nobody vouches for: everything that the kernel follows without looking has
// been checked here. What it does not check is whether the plan computes the right thing.
#ifndef HAJAX_NATIVE_ASCEND_HOST_PLAN_VIEW_H_
#define HAJAX_NATIVE_ASCEND_HOST_PLAN_VIEW_H_

#include <stdint.h>

#include <vector>

#include "hajax/abi/plan.h"
#include "hajax/abi/target.h"
#include "native/ascend/host/failure.h"

namespace hajax::ascend::host {

// What a plan must fit.
struct Chip {
  int64_t npu_arch = 0;
  int64_t ai_cores = 0;
  int64_t l1_bytes = 0;
  int64_t l0a_bytes = 0;
  int64_t l0b_bytes = 0;
  int64_t l0c_bytes = 0;
  int64_t ub_bytes = 0;  // without what the API keeps for itself
};

Chip chip_of(const hj_target& target);

struct PlanView {
  const uint8_t* bytes = nullptr;
  hj_npu_plan plan = {};
  std::vector<hj_npu_launch> launches;
  std::vector<hj_npu_item> items;
  std::vector<hj_npu_program> programs;

  bool per_channel() const { return plan.header.decay == kDecay_per_channel; }
  // Whether the launch goes on in the kernel of the one before it.
  bool follows(size_t launch) const { return launch > 0 && launches[launch - 1].sync_after != 0; }
  int64_t output_bytes() const { return plan.output_dtype == kDtype_float32 ? 4 : 2; }
};

// Without the bit that shares their field.
inline int32_t stages_of(const hj_npu_program& program) { return program.stages & ~HJ_CARRIES_FLAGS; }

// The bytes must outlive the view.
Failure read_plan(const void* bytes, int64_t count, const Chip& chip, PlanView* view);

}  // namespace hajax::ascend::host

#endif  // HAJAX_NATIVE_ASCEND_HOST_PLAN_VIEW_H_
