// What a kernel is given: plain data, computed once per call by portable code. ISA objects include this and nothing of
// the standard library.
#ifndef HAJAX_NATIVE_CPU_PROBLEM_H_
#define HAJAX_NATIVE_CPU_PROBLEM_H_

#include <stdint.h>

#include "hajax/abi/hajax.h"
#include "hajax/abi/plan.h"
#include "native/cpu/layer.h"

namespace hajax::cpu {

// Row tiles of every ISA are at most this high, so this many rows beyond a chunk are kept.
constexpr int64_t kRowSlack = 8;
constexpr int64_t kCacheLine = 64;
// Tokens in the smallest block that scores with a decay per channel are halved down to.
constexpr int64_t kBlock = 8;
// Rows of two matrix tiles above one another, and the depth of one.
constexpr int64_t kMatrixStep = 32;
constexpr int64_t kStateParts = 3;

// Where the parts of a worker's scratch lie, in floats from its start. Every part starts on a cache line.
struct Layout {
  int64_t key;        // [chunk + slack, Dk] rows, normalised
  int64_t query;      // [chunk + slack, Dk] rows, normalised and scaled
  int64_t key_t;      // [Dk, pitch] transposed keys; per channel those of a value head, decayed to the chunk's end
  int64_t key_pairs;  // [Dk / 2, pitch] pairs of bf16 keys, for the bf16 dot product; [parts, dim / 2, rows] for tiles
  int64_t kk;         // [chunk + slack, pitch] K K^T
  int64_t qk;         // [chunk + slack, pitch] Q K^T
  int64_t lower;      // [chunk + slack, pitch] erase (K K^T) decay, strictly lower
  int64_t mix;        // [chunk + slack, pitch] (Q K^T) decay, lower
  int64_t segment;    // [pitch] running segment sums of the log decay
  int64_t log_decay;  // the vectors below: [chunk + slack]
  int64_t write;      // write and erase strength: one beta, or two
  int64_t erase;
  int64_t from_start;  // exp of the decay from the chunk's start
  int64_t to_end;      // exp of the decay to the chunk's end
  int64_t key_factor;  // what a raw key row was multiplied by
  int64_t query_factor;
  int64_t update;    // [max(chunk + slack, 3 Dv)] x panel: the solution X of a panel; k.S, q.S and u of a token step
  int64_t values;    // [chunk + slack, block panels x panel] a value head's rows of the block as floats; with matrix
                     // tiles of a panel
  int64_t outputs;   // likewise, before they are rounded and stored
  int64_t states;    // [group, panels of a block, state_rows, panel]
  int64_t kept;      // [Dk] what is left of each state row after a chunk or a token
  int64_t key_in;    // only per channel, as all below: [chunk + slack, Dk] key rows, decayed from the chunk's start
  int64_t query_in;  // [chunk + slack, Dk] query rows likewise
  int64_t channel_decay;  // [chunk + slack, Dk] what one token leaves of each channel
  int64_t block_sums;     // [chunk / block, 2, Dk] log decays summed over blocks, and what the sums lost to rounding
  int64_t block_rows;     // [block, Dk] key rows decayed to their block's end, before they are transposed
  int64_t key_parts;      // only with matrix tiles, as all below: [parts, rows, dim] key rows in parts of bf16
  int64_t query_parts;    // [parts, rows, dim] query rows
  int64_t key_t_parts;    // [parts, dim, rows] transposed keys
  int64_t lower_parts;    // [3, rows, rows] K K^T below its diagonal blocks
  int64_t mix_parts;      // [output parts, rows, rows] Q K^T, lower
  int64_t state_parts;    // [3, dim / 2, panel] pairs of state rows, of a panel
  int64_t update_parts;   // [3, rows / 2, panel] pairs of rows of the solution X
  int64_t key_scale;      // [rows] the vectors below: what raw keys of products with the state are multiplied by
  int64_t query_scale;    // outputs: norm and decay
  int64_t value_scale;    // values: one over the decay
  int64_t write_scale;    // updates: norm of the key and write strength
  int64_t erase_scale;    // norm of the key and erase strength
  int64_t pending;        // [group] doubles: the log decay that a state is still to be multiplied by
  int64_t matrix_rows;    // tokens of a chunk and channels of a key, up to whole tiles; 0 without matrix tiles
  int64_t matrix_dim;
  int64_t input_parts;   // bf16 parts of an element of a key or query row
  int64_t output_parts;  // of operands that only the output is made from
  int64_t floats;        // all of it
  int64_t state_rows;    // Dk, up to whole tiles
  int64_t value_pitch;   // row pitch of values and outputs
  int64_t pitch;         // row pitch of the token x token matrices
};

// Counted by each worker alone at the head of its scratch, summed when all is done.
struct alignas(kCacheLine) Work {
  int64_t tasks;
  int64_t chunks;
  int64_t token_steps;
  int64_t macs;
};
constexpr int64_t kWorkFloats = static_cast<int64_t>(sizeof(Work) / sizeof(float));

// K K^T and Q K^T of raw bf16 rows, `stride` elements apart, times row and column factors.
struct Gram {
  const uint16_t* key;
  const uint16_t* query;
  int64_t stride;
  int64_t rows;
  int64_t dim;
  const float* key_factor;
  const float* query_factor;
  uint32_t* pairs;  // [dim / 2, pitch]
  float* kk;
  float* qk;
  int64_t pitch;
};
using GramFunction = int64_t (*)(const Gram&);  // returns the multiply-accumulates done

struct Problem {
  hj_delta_call call;
  hj_cpu_plan plan;
  Layout layout;
  GramFunction gram;  // null: fp32
  int64_t subgroups;  // groups of value heads under one key head; 0 where a group has several key heads
  int64_t panels;     // of a whole head
  int64_t items;
  int32_t decay;  // decays.def
  bool delta;
  bool two_strengths;
};

struct BackwardProblem;  // backward_problem.h

// One object file per ISA exports one of these.
struct Kernels {
  int32_t isa;
  int32_t panel;
  bool matrix;  // it multiplies on matrix tiles
  void (*task)(const Problem& problem, int64_t item, float* scratch, Work* work);
  void (*backward_task)(const BackwardProblem& problem, int64_t item, float* scratch, Work* work);

  void (*convolution)(const hj_convolution& call, const ConvolutionTile& tile);
  void (*gated_norm)(const hj_gated_norm& call, int64_t begin, int64_t end);  // rows
};

#if defined(HAJAX_BUILD_X86)
extern const Kernels kKernelsAvx2;
extern const Kernels kKernelsAvx512;
extern const Kernels kKernelsAmx;
int64_t gram_bf16_avx512(const Gram& gram);
#endif
#if defined(HAJAX_BUILD_NEON)
extern const Kernels kKernelsNeon;
#endif
extern const Kernels kKernelsBaseline;
extern const Kernels kKernelsTiles;

}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_PROBLEM_H_
