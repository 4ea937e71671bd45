// What the host makes of a call before the kernel runs: the table of sequences, and gates as the kernel reads them.
#ifndef HAJAX_NATIVE_ASCEND_HOST_GATES_H_
#define HAJAX_NATIVE_ASCEND_HOST_GATES_H_

#include <string>
#include <vector>

#include "hajax/abi/hajax.h"
#include "native/ascend/host/plan_view.h"

namespace hajax::ascend::host {

// "field[row, token of it, head]" of a token's number over all rows, as errors name it.
std::string place_of(const char* field, const hj_delta_call& call, int64_t token, int64_t head);

struct Sequences {
  std::vector<hj_npu_sequence> rows;  // of all rows of the batch, one after the other
  int64_t gates = 0;                  // entries of a head: every sequence's tokens in whole chunks
};

Sequences sequences_of(const PlanView& view, const hj_delta_call& call);

struct Gates {
  std::vector<float> log_decay;  // [Hv, gates], or [B, T, Hv, Dk] for a decay per channel; zeros without a decay
  std::vector<float> beta;       // [Hv, gates]: the write strength
  std::vector<float> erase;      // likewise; empty when there is one strength
};

// Refuses a log decay above 0 or NaN, a strength that is not finite, and one below 0 where the plan takes logarithms of
// strengths; looks only at tokens of a sequence. A decay to nothing (-inf) becomes one that no exponential tells from
// it.
Failure make_gates(const PlanView& view, const hj_delta_call& call, const Sequences& sequences, Gates* gates);

}  // namespace hajax::ascend::host

#endif  // HAJAX_NATIVE_ASCEND_HOST_GATES_H_
