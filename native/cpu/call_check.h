// Checks a call against its plan before anything runs.
#ifndef HAJAX_NATIVE_CPU_CALL_CHECK_H_
#define HAJAX_NATIVE_CPU_CALL_CHECK_H_

#include <initializer_list>
#include <string>

#include "native/cpu/failure.h"
#include "native/cpu/plan_view.h"

namespace hajax::cpu {

Failure bad_call(const std::string& field, const std::string& expected, const std::string& got);

// The product of sizes that are not negative, or -1 when it is past half of what 63 bits hold.
int64_t product(std::initializer_list<int64_t> sizes);

// A buffer whose last size is an element's bytes: not null, unless it is empty.
Failure check_buffer(const std::string& field, const void* pointer, std::initializer_list<int64_t> sizes);

Failure check_call(const PlanView& view, const hj_delta_call& call);
Failure check_backward_call(const PlanView& view, const hj_delta_backward& call);

// A gradient's operands as those of the operator itself, which has no results then.
hj_delta_call operands_of(const hj_delta_backward& call);

}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_CALL_CHECK_H_
