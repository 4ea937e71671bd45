#include "native/ascend/host/gates.h"

#include <cmath>

#include "native/ascend/host/step_kind.h"

namespace hajax::ascend::host {
namespace {

constexpr float kLeastLogDecay = -1e4f;

bool is_log_decay(float value) { return value <= 0; }  // NaN is not

float held(float log_decay) { return log_decay < kLeastLogDecay ? kLeastLogDecay : log_decay; }

// Calls found(token, entry) for every token of a sequence: its number over all rows, and its entry in a gate array.
template <typename Found>
Failure each_token(const Sequences& sequences, Found&& found) {
  for (const hj_npu_sequence& sequence : sequences.rows) {
    for (int64_t i = 0; i < sequence.tokens; ++i) {
      if (Failure f = found(sequence.token + i, sequence.gate + i); f.failed()) return f;
    }
  }
  return {};
}

Failure copy_scalar_decay(const PlanView& view, const hj_delta_call& call, const Sequences& sequences,
                          std::vector<float>* to) {
  const int64_t heads = view.plan.value_heads;
  to->assign(static_cast<size_t>(heads * sequences.gates), 0.0f);
  if (view.plan.header.decay == kDecay_none) return {};
  return each_token(sequences, [&](int64_t token, int64_t entry) {
    for (int64_t head = 0; head < heads; ++head) {
      const float value = call.log_decay[token * heads + head];
      if (!is_log_decay(value)) {
        return bad_call(place_of("log_decay", call, token, head), "a number of at most 0", std::to_string(value));
      }
      (*to)[static_cast<size_t>(head * sequences.gates + entry)] = held(value);
    }
    return Failure{};
  });
}

Failure copy_channel_decay(const PlanView& view, const hj_delta_call& call, const Sequences& sequences,
                           std::vector<float>* to) {
  const int64_t row = int64_t{view.plan.value_heads} * view.plan.key_dim;
  to->assign(static_cast<size_t>(call.batch * call.tokens * row), 0.0f);
  return each_token(sequences, [&](int64_t token, int64_t) {
    for (int64_t i = 0; i < row; ++i) {
      const float value = call.log_decay[token * row + i];
      if (!is_log_decay(value)) {
        return bad_call(place_of("log_decay", call, token, i / view.plan.key_dim), "numbers of at most 0",
                        std::to_string(value));
      }
      (*to)[static_cast<size_t>(token * row + i)] = held(value);
    }
    return Failure{};
  });
}

// Logarithms are of strengths: decays are logarithms already, and nothing else that a plan reads is never negative.
bool takes_logarithms(const PlanView& view) {
  for (const hj_npu_program& program : view.programs) {
    const int64_t steps = int64_t{program.setup} + program.body + program.finish;
    for (int64_t i = 0; i < steps; ++i) {
      if (step_of(view, program, i).opcode == kOp_ln32) return true;
    }
  }
  return false;
}

Failure copy_strengths(const PlanView& view, const hj_delta_call& call, const Sequences& sequences, Gates* gates) {
  const int64_t heads = view.plan.value_heads;
  const int64_t strengths = view.plan.header.strengths;
  const auto size = static_cast<size_t>(heads * sequences.gates);
  gates->beta.assign(size, 0.0f);
  gates->erase.assign(strengths == 2 ? size : 0, 0.0f);
  const bool logarithms = takes_logarithms(view);
  return each_token(sequences, [&](int64_t token, int64_t entry) {
    for (int64_t head = 0; head < heads; ++head) {
      const float* value = call.beta + (token * heads + head) * strengths;
      const auto to = static_cast<size_t>(head * sequences.gates + entry);
      for (int64_t i = 0; i < strengths; ++i) {
        const char* field = i + 1 < strengths ? "erase" : "beta";
        if (!std::isfinite(value[i])) {
          return bad_call(place_of(field, call, token, head), "a finite number", std::to_string(value[i]));
        }
        if (logarithms && value[i] < 0) {
          return bad_call(place_of(field, call, token, head),
                          "a number of at least 0, as this plan takes logarithms of strengths",
                          std::to_string(value[i]));
        }
      }
      gates->beta[to] = value[strengths - 1];
      if (strengths == 2) gates->erase[to] = value[0];
    }
    return Failure{};
  });
}

}  // namespace

std::string place_of(const char* field, const hj_delta_call& call, int64_t token, int64_t head) {
  return std::string(field) + "[" + std::to_string(token / call.tokens) + ", " + std::to_string(token % call.tokens) +
         ", " + std::to_string(head) + "]";
}

Sequences sequences_of(const PlanView& view, const hj_delta_call& call) {
  Sequences found;
  const int64_t chunk = view.plan.chunk;
  for (int64_t b = 0; b < call.batch; ++b) {
    const int32_t* bounds = call.bounds + b * (call.sequences + 1);
    for (int64_t n = 0; n < call.sequences; ++n) {
      hj_npu_sequence row = {};
      row.token = b * call.tokens + bounds[n];
      row.gate = found.gates;
      row.tokens = bounds[n + 1] - bounds[n];
      row.state = static_cast<int32_t>(b * call.sequences + n);
      found.rows.push_back(row);
      found.gates += (row.tokens + chunk - 1) / chunk * chunk;
    }
  }
  return found;
}

Failure make_gates(const PlanView& view, const hj_delta_call& call, const Sequences& sequences, Gates* gates) {
  if (Failure f = view.per_channel() ? copy_channel_decay(view, call, sequences, &gates->log_decay)
                                     : copy_scalar_decay(view, call, sequences, &gates->log_decay);
      f.failed()) {
    return f;
  }
  return copy_strengths(view, call, sequences, gates);
}

}  // namespace hajax::ascend::host
