#include "native/ascend/host/inputs.h"

#include <cmath>
#include <initializer_list>
#include <string>

namespace hajax::ascend::host {
namespace {

struct Tokens {
  const char* field;
  const void* halves;  // [B * T, heads, dim]
  int64_t heads;
  int64_t dim;
};

bool is_finite_half(uint16_t bits) {
  constexpr uint16_t kExponent = 0x7c00;
  return (bits & kExponent) != kExponent;
}

Failure check_tokens(const Tokens& tokens, const hj_delta_call& call, const hj_npu_sequence& sequence) {
  const int64_t row = tokens.heads * tokens.dim;
  const uint16_t* first = static_cast<const uint16_t*>(tokens.halves) + int64_t{sequence.token} * row;
  for (int64_t i = 0; i < sequence.tokens * row; ++i) {
    if (is_finite_half(first[i])) continue;
    const std::string place = place_of(tokens.field, call, sequence.token + i / row, i % row / tokens.dim);
    return bad_call(place, "numbers that are finite in float16 (at most 65504)", "one that is not");
  }
  return {};
}

}  // namespace

Failure check_inputs(const PlanView& view, const hj_delta_call& call, const Sequences& sequences) {
  const hj_npu_plan& p = view.plan;
  const int64_t state = int64_t{p.value_heads} * p.key_dim * p.value_dim;
  for (const hj_npu_sequence& sequence : sequences.rows) {
    for (const Tokens& tokens :
         {Tokens{"query", call.query, p.key_heads, p.key_dim}, Tokens{"key", call.key, p.key_heads, p.key_dim},
          Tokens{"value", call.value, p.value_heads, p.value_dim}}) {
      if (Failure f = check_tokens(tokens, call, sequence); f.failed()) return f;
    }
    const float* own = call.state_in + int64_t{sequence.state} * state;
    for (int64_t i = 0; i < state; ++i) {
      if (std::isfinite(own[i])) continue;
      const std::string place = "initial_state[" + std::to_string(sequence.state) + ", " +
                                std::to_string(i / (int64_t{p.key_dim} * p.value_dim)) + "]";
      return bad_call(place, "finite numbers", std::to_string(own[i]));
    }
  }
  return {};
}

}  // namespace hajax::ascend::host
