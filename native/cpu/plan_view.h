// Reads a plan's bytes. They come from caches and callers: nothing is believed before it is checked.
#ifndef HAJAX_NATIVE_CPU_PLAN_VIEW_H_
#define HAJAX_NATIVE_CPU_PLAN_VIEW_H_

#include "native/cpu/failure.h"
#include "native/cpu/layout.h"

namespace hajax::cpu {

struct PlanView {
  hj_cpu_plan plan;
  Layout layout;
  const Kernels* kernels;
  GramFunction gram;             // null: fp32
  int64_t needed_scratch_bytes;  // for one worker
};

// Everything but plan.scratch_bytes, which check_scratch compares.
Failure read_plan(const void* bytes, int64_t count, PlanView* view);
Failure check_scratch(const PlanView& view);

const char* abi_digest();  // 64 hexadecimal digits
int64_t dtype_bytes(int32_t dtype);

}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_PLAN_VIEW_H_
