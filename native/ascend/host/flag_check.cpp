// Flags as the kernel meets them: setup once, the body at least once, finish once. An iteration that leaves every flag
// as it found it stands for all of them, with HJ_CARRIES_FLAGS too: which flags are set does not depend on barriers.
#include "native/ascend/host/step_check.h"
#include "native/ascend/host/step_kind.h"

namespace hajax::ascend::host {
namespace {

constexpr int kEventBits = 3;
constexpr int kFlags = 256;

struct Pair {
  const char* name = nullptr;
  int32_t from = -1;
  int32_t to = -1;
};

Pair pair_of(uint8_t flag) {
  switch (flag >> kEventBits) {
#define FLAG(number, name, from, to) \
  case number:                       \
    return {#name, kPipe_##from, kPipe_##to};
#include "hajax/abi/flags.def"
#undef FLAG
    default:
      return {};
  }
}

std::string text_of(uint8_t flag) { return std::string(pair_of(flag).name) + " " + std::to_string(flag & 7); }

// Which flags are set and not yet waited for.
struct Flags {
  bool set[kFlags] = {};
};

Failure apply(Flags* flags, uint8_t flag, bool sets, int32_t pipe, const std::string& field) {
  if (flag == 0) return {};
  const Pair pair = pair_of(flag);
  if (pair.name == nullptr) return bad_plan(field, "0, or a pair of flags.def times 8 and an event", flag);
  if (pipe != kPipe_S && pipe != (sets ? pair.from : pair.to)) {
    return bad_plan(field, sets ? "a flag from the step's pipe" : "a flag to the step's pipe", text_of(flag));
  }
  if (flags->set[flag] == sets) {
    return bad_plan(field, sets ? "a flag that has been waited for" : "a flag that has been set", text_of(flag));
  }
  flags->set[flag] = sets;
  return {};
}

Failure apply_step(Flags* flags, const hj_step& step, const std::string& where) {
  const int32_t pipe = pipe_of(step.opcode);
  const bool more = step.opcode == kOp_sync && step.count == 1;
  const auto each = [&](const uint8_t* bytes, int count, bool sets, const char* field) {
    for (int i = 0; i < count; ++i) {
      const std::string name = where + field + "[" + std::to_string(i) + "]";
      if (Failure f = apply(flags, bytes[i], sets, pipe, name); f.failed()) return f;
    }
    return Failure{};
  };
  // The kernel's order.
  if (Failure f = each(step.wait, 2, false, "wait"); f.failed()) return f;
  if (more) {
    if (Failure f = each(step.p, 4, false, "p"); f.failed()) return f;
    if (Failure f = each(step.p + 4, 4, true, "p[4 +]"); f.failed()) return f;
  }
  return each(step.set, 2, true, "set");
}

}  // namespace

Failure check_flags(const PlanView& view, const hj_npu_program& program, const std::string& name) {
  Flags flags;
  const auto section = [&](int64_t first, int64_t count) {
    for (int64_t i = first; i < first + count; ++i) {
      const hj_step step = step_of(view, program, i);
      const std::string where = name + "steps[" + std::to_string(i) + "] (" + opcode_name(step.opcode) + ").";
      if (Failure f = apply_step(&flags, step, where); f.failed()) return f;
    }
    return Failure{};
  };
  if (Failure f = section(0, program.setup); f.failed()) return f;
  const Flags before = flags;
  if (Failure f = section(program.setup, program.body); f.failed()) return f;
  for (int i = 0; i < kFlags; ++i) {
    if (flags.set[i] == before.set[i]) continue;
    return bad_plan(name + "body", "as many sets as waits in an iteration", text_of(static_cast<uint8_t>(i)));
  }
  if (Failure f = section(int64_t{program.setup} + program.body, program.finish); f.failed()) return f;
  for (int i = 0; i < kFlags; ++i) {
    if (flags.set[i]) {
      return bad_plan(name + "finish", "a wait for each flag", text_of(static_cast<uint8_t>(i)) + " left set");
    }
  }
  return {};
}

}  // namespace hajax::ascend::host
