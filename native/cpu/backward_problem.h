// What a gradient kernel is given, as problem.h is of the forward one.
#ifndef HAJAX_NATIVE_CPU_BACKWARD_PROBLEM_H_
#define HAJAX_NATIVE_CPU_BACKWARD_PROBLEM_H_

#include "native/cpu/problem.h"

namespace hajax::cpu {

// A sequence of more chunks is walked in segments: its states are kept at the start of each, and those within a
// segment are computed again.
constexpr int64_t kMostKeptStates = 64;
constexpr int64_t kLeastSegment = 32;

// Chunks in a segment of a sequence of `chunks`: all, or about the square root, which keeps the fewest states.
inline int64_t segment_of(int64_t chunks) {
  if (chunks <= kMostKeptStates) return chunks > 0 ? chunks : 1;
  int64_t segment = kLeastSegment;
  while (segment * segment < chunks) ++segment;
  return segment;
}

// Where the parts of a worker's scratch lie that only a gradient has, in floats from its start. Rows of [.., Dv] are
// `wide_value` floats apart, those of [.., Dk] `wide_key`, of tokens x tokens the forward layout's pitch.
struct BackwardLayout {
  int64_t wide_value;
  int64_t wide_key;
  int64_t values;    // [chunk + slack, Dv] the value rows; then their gradient
  int64_t d_output;  // likewise, as all below: the cotangent of the output
  int64_t update;    // X, what the tokens write
  int64_t known;     // U, what the state tells of their keys before they do: X = write V - erase U
  int64_t d_update;  // gradient of X
  int64_t d_known;   // gradient of U
  int64_t update_t;  // [Dv, chunk + slack]
  int64_t ratio;     // [chunk + slack, pitch] decay between two tokens
  int64_t d_mix;     // gradients of the decayed scores of queries
  int64_t d_lower;   // and of keys
  int64_t d_qk;      // the same without decay, summed over value heads
  int64_t d_kk;
  int64_t state_t;    // [Dv, Dk] the chunk's first state transposed
  int64_t d_state_t;  // [Dv, Dk] gradient of its last one
  int64_t d_states;   // [group, Dk, Dv]
  int64_t product;    // [chunk + slack, Dk]
  int64_t d_query;    // [chunk + slack, Dk] of normalised, scaled rows, summed over value heads
  int64_t d_key;
  int64_t to_here;     // [pitch] gradients of a token's log decay: of sums that end with it or later
  int64_t from_here;   // of sums that start behind it
  int64_t between;     // of sums between tokens of the chunk
  int64_t factor_in;   // only per channel, as all below: [chunk + slack, Dk] decay from a block's start
  int64_t factor_out;  // to its end
  int64_t row_key;     // [chunk + slack, Dk] key rows times one of the two
  int64_t row_query;
  int64_t product_2;     // as product
  int64_t d_decay;       // [chunk + slack, Dk] gradient of the log decay
  int64_t states;        // [segment + segments, group, Dk, Dv]
  int64_t state_floats;  // of one state
  int64_t segment;       // chunks
  int64_t floats;        // all of it, the forward layout included
};

struct BackwardProblem {
  Problem forward;  // its call has no results
  hj_delta_backward call;
  BackwardLayout at;
};

}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_BACKWARD_PROBLEM_H_
