// The C interface of hajax/abi/hajax.h. No exception leaves it: every entry turns one into a status and a message.
#include <cstring>
#include <exception>
#include <string>

#include "hajax/abi/hajax.h"
#include "native/cpu/backward_layout.h"
#include "native/cpu/call_check.h"
#include "native/cpu/isa.h"
#include "native/cpu/layer_calls.h"
#include "native/cpu/plan_view.h"
#include "native/cpu/run.h"

namespace hajax::cpu {
namespace {

constexpr int kIsaBits = 64;

std::string& last_error() {
  thread_local std::string text;
  return text;
}

int32_t report(const Failure& failure) {
  last_error() = failure.text;
  return failure.status;
}

// body() returns a Failure.
template <class Body>
int32_t guarded(const Body& body) noexcept {
  try {
    return report(body());
  } catch (const std::exception& e) {
    try {
      last_error() = e.what();
    } catch (...) {  // out of memory even for the message
    }
  } catch (...) {
  }
  return kStatus_internal;
}

Failure execute(const void* bytes, int64_t count, const hj_delta_call* call, const hj_parallel* parallel,
                int64_t* counters) {
  PlanView view;
  if (Failure f = read_plan(bytes, count, &view); f.failed()) return f;
  if (Failure f = check_scratch(view); f.failed()) return f;
  if (call == nullptr) return wrong(kStatus_bad_call, "call", "call", "a pointer", "null");
  if (parallel != nullptr && parallel->run == nullptr)
    return wrong(kStatus_bad_call, "call", "parallel.run", "a function", "null");
  if (Failure f = check_call(view, *call); f.failed()) return f;
  return run(view, *call, parallel, counters);
}

// The plan of a gradient, but for its scratch.
Failure read_backward_plan(const void* bytes, int64_t count, int64_t tokens, PlanView* view) {
  if (Failure f = read_plan(bytes, count, view); f.failed()) return f;
  const auto bad = [](const char* field, const char* expected, int64_t got) {
    return wrong(kStatus_bad_plan, "plan", field, expected, std::to_string(got));
  };
  const int32_t per_key = view->plan.value_heads / view->plan.key_heads;
  if (view->plan.group > per_key) {
    return bad("group", "value heads of one key head for a gradient", view->plan.group);
  }
  if (view->plan.column_blocks != 1) return bad("column_blocks", "1 for a gradient", view->plan.column_blocks);
  if (view->plan.bf16_dot != 0) return bad("bf16_dot", "0 for a gradient", view->plan.bf16_dot);
  if (tokens < 0 || tokens > INT32_MAX) {
    return wrong(kStatus_bad_call, "call", "tokens", "0..2147483647", std::to_string(tokens));
  }
  view->needed_scratch_bytes =
      backward_layout_of(view->plan, tokens, &view->layout).floats * static_cast<int64_t>(sizeof(float));
  return {};
}

Failure execute_backward(const void* bytes, int64_t count, const hj_delta_backward* call, const hj_parallel* parallel,
                         int64_t* counters) {
  PlanView view;
  if (call == nullptr) return wrong(kStatus_bad_call, "call", "call", "a pointer", "null");
  if (parallel != nullptr && parallel->run == nullptr)
    return wrong(kStatus_bad_call, "call", "parallel.run", "a function", "null");
  if (Failure f = read_backward_plan(bytes, count, call->tokens, &view); f.failed()) return f;
  if (Failure f = check_scratch(view); f.failed()) return f;
  if (Failure f = check_backward_call(view, *call); f.failed()) return f;
  return run_backward(view, *call, parallel, counters);
}

}  // namespace
}  // namespace hajax::cpu

extern "C" {

const char* hajax_abi_digest(void) { return hajax::cpu::abi_digest(); }

uint64_t hajax_cpu_isas(void) {
  uint64_t bits = 0;
  for (int32_t isa = 0; isa < hajax::cpu::kIsaBits; ++isa) {
    if (hajax::cpu::isa_runs(isa)) bits |= uint64_t{1} << isa;
  }
  return bits;
}

int32_t hajax_cpu_bf16_dot(void) { return hajax::cpu::bf16_gram() != nullptr ? 1 : 0; }

int32_t hajax_cpu_panel(int32_t isa) {
  const hajax::cpu::Kernels* kernels = hajax::cpu::built_kernels(isa);
  return kernels != nullptr ? kernels->panel : 0;
}

int64_t hajax_cpu_scratch_bytes(const void* plan, int64_t plan_bytes) {
  int64_t needed = -1;
  hajax::cpu::guarded([&]() -> hajax::cpu::Failure {
    hajax::cpu::PlanView view;
    hajax::cpu::Failure failure = hajax::cpu::read_plan(plan, plan_bytes, &view);
    if (!failure.failed()) needed = view.needed_scratch_bytes;
    return failure;
  });
  return needed;
}

int32_t hajax_execute(const void* plan, int64_t plan_bytes, const hj_delta_call* call, const hj_parallel* parallel,
                      int64_t* counters) {
  return hajax::cpu::guarded([&] { return hajax::cpu::execute(plan, plan_bytes, call, parallel, counters); });
}

int64_t hajax_cpu_backward_scratch_bytes(const void* plan, int64_t plan_bytes, int64_t tokens) {
  int64_t needed = -1;
  hajax::cpu::guarded([&]() -> hajax::cpu::Failure {
    hajax::cpu::PlanView view;
    hajax::cpu::Failure failure = hajax::cpu::read_backward_plan(plan, plan_bytes, tokens, &view);
    if (!failure.failed()) needed = view.needed_scratch_bytes;
    return failure;
  });
  return needed;
}

int32_t hajax_execute_backward(const void* plan, int64_t plan_bytes, const hj_delta_backward* call,
                               const hj_parallel* parallel, int64_t* counters) {
  return hajax::cpu::guarded([&] { return hajax::cpu::execute_backward(plan, plan_bytes, call, parallel, counters); });
}

int32_t hajax_convolve(const hj_convolution* call, const hj_parallel* parallel) {
  return hajax::cpu::guarded([&] { return hajax::cpu::convolve(call, parallel); });
}

int32_t hajax_normalise_gated(const hj_gated_norm* call, const hj_parallel* parallel) {
  return hajax::cpu::guarded([&] { return hajax::cpu::normalise_gated(call, parallel); });
}

const char* hajax_last_error(void) { return hajax::cpu::last_error().c_str(); }

}  // extern "C"
