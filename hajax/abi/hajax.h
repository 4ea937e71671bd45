/* The C interface of every hajax backend library. All arrays are row-major and contiguous. */
#ifndef HAJAX_ABI_HAJAX_H_
#define HAJAX_ABI_HAJAX_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* cffi: begin */
#define HJ_COUNTERS 16 /* room in every counter array; rows in counters.def */

/* One call of a delta-rule operator. B rows of T tokens; each row holds N sequences that follow one another. */
typedef struct {
  int64_t batch;          /* B */
  int64_t tokens;         /* T */
  int64_t sequences;      /* N */
  const void* query;      /* [B, T, Hk, Dk] input dtype */
  const void* key;        /* [B, T, Hk, Dk] input dtype */
  const void* value;      /* [B, T, Hv, Dv] input dtype */
  const float* log_decay; /* [B, T, Hv], or [B, T, Hv, Dk] when the decay is per channel; <= 0 */
  const float* beta;      /* [B, T, Hv] */
  const float* state_in;  /* [B, N, Hv, Dk, Dv] */
  const int32_t* bounds;  /* [B, N + 1]: sequence n of row b is tokens bounds[b][n] .. bounds[b][n + 1] - 1 */
  void* output;           /* [B, T, Hv, Dv] output dtype; zero outside every sequence */
  float* state_out;       /* [B, N, Hv, Dk, Dv]; may be state_in itself */
  void* scratch;          /* 64-byte aligned: plan.workers times plan.scratch_bytes */
  int64_t scratch_bytes;
  float scale; /* multiplies the query */
  float
      l2norm_eps; /* >= 0: query and key rows are divided by sqrt(sum of squares + eps) first; < 0: taken as they are */
} hj_delta_call;

/* One call of the gradient of a delta-rule operator: its operands, the cotangents of its results, and where the
 * gradients go. With G = plan.group, R = Hv / Hk / G: above 1, query and key gradients are partial sums. */
typedef struct {
  int64_t batch; /* as in hj_delta_call, as all down to bounds */
  int64_t tokens;
  int64_t sequences;
  const void* query;
  const void* key;
  const void* value;
  const float* log_decay;
  const float* beta;
  const float* state_in;
  const int32_t* bounds;
  const void* output_cotangent; /* [B, T, Hv, Dv] output dtype */
  const float* state_cotangent; /* [B, N, Hv, Dk, Dv] */
  void* query_gradient;         /* [B, T, Hk, R, Dk]: input dtype, float32 where R > 1; the caller sums over R */
  void* key_gradient;           /* likewise */
  void* value_gradient;         /* [B, T, Hv, Dv] input dtype */
  float* log_decay_gradient;    /* as log_decay; not written without a decay */
  float* beta_gradient;         /* as beta */
  float* state_gradient;        /* as state_in; none may overlap an operand */
  void* scratch;                /* 64-byte aligned: plan.workers times plan.scratch_bytes */
  int64_t scratch_bytes;
  float scale;
  float l2norm_eps;
} hj_delta_backward;

/* A depthwise causal convolution of B rows of T tokens; each row holds N sequences that follow one another. Tap K - 1
 * is the token itself. */
typedef struct {
  int64_t batch;         /* B */
  int64_t tokens;        /* T */
  int64_t sequences;     /* N */
  int64_t channels;      /* C */
  int64_t taps;          /* K */
  int32_t isa;           /* isas.def */
  int32_t dtype;         /* dtypes.def: of input, state and outputs */
  int32_t workers;       /* at most so many share the work */
  int32_t silu;          /* 1: y = silu of the sum, 0: the sum */
  const void* input;     /* [B, T, C] */
  const void* state_in;  /* [B, N, K - 1, C]: the inputs before each sequence, oldest first */
  const float* weight;   /* [K, C] */
  const float* bias;     /* [C], or null */
  const int32_t* bounds; /* [B, N + 1]; bounds that descend or leave 0..T make every result NaN */
  int64_t parts;         /* outputs that share the channels in their order */
  const int64_t* sizes;  /* [parts]: channels of each, C in all */
  void* const* outputs;  /* [parts]: [B, T, size]; zero outside every sequence */
  void* state_out;       /* [B, N, K - 1, C]: the last inputs of each sequence; not state_in */
} hj_convolution;

/* Rows of weight * x / sqrt(mean of squares + eps) times silu(gate) or sigmoid(gate). */
typedef struct {
  int64_t rows;
  int64_t dim;
  int32_t isa;         /* isas.def */
  int32_t input_dtype; /* dtypes.def */
  int32_t gate_dtype;  /* dtypes.def: of gate and output */
  int32_t workers;     /* at most so many share the work */
  int32_t silu;        /* 1: times silu(gate), 0: times sigmoid(gate) */
  float eps;
  const void* input;   /* [rows, dim] */
  const void* gate;    /* [rows, dim] */
  const float* weight; /* [dim] */
  void* output;        /* [rows, dim]; may be gate itself */
} hj_gated_norm;

/* Work that can be shared: run calls item(argument, i, worker) once for every i in [0, items), worker in [0, workers).
 */
typedef void (*hj_item)(void* argument, int64_t item, int32_t worker);
typedef struct {
  void* context;
  void (*run)(void* context, int64_t items, int32_t workers, hj_item item, void* argument);
} hj_parallel;

/* 64 hexadecimal digits: the SHA-256 of hajax/abi that this library was built with. */
const char* hajax_abi_digest(void);

/* Bit i is set when the ISA numbered i in isas.def was built into this library and runs on this CPU. */
uint64_t hajax_cpu_isas(void);

/* 1 when the ISA's bf16 dot product was built and runs on this CPU. */
int32_t hajax_cpu_bf16_dot(void);

/* State columns in a panel of this ISA, 0 when the library does not have it. */
int32_t hajax_cpu_panel(int32_t isa);

/* Scratch that one worker needs for this plan (its scratch_bytes field is ignored), or -1 when the plan is refused. */
int64_t hajax_cpu_scratch_bytes(const void* plan, int64_t plan_bytes);

/* Runs a plan. parallel may be null (the caller works alone), counters may be null. Returns 0, or a status of
 * statuses.def with hajax_last_error set. */
int32_t hajax_execute(const void* plan, int64_t plan_bytes, const hj_delta_call* call, const hj_parallel* parallel,
                      int64_t* counters);

/* Scratch that one worker needs for the gradient of calls with so many tokens, or -1 when the plan is refused. */
int64_t hajax_cpu_backward_scratch_bytes(const void* plan, int64_t plan_bytes, int64_t tokens);

/* Runs a plan's gradient, as hajax_execute does the plan. column_blocks is 1 and bf16_dot 0; token_steps is not read.
 */
int32_t hajax_execute_backward(const void* plan, int64_t plan_bytes, const hj_delta_backward* call,
                               const hj_parallel* parallel, int64_t* counters);

/* The pieces of a layer around the operator. parallel and the result as for hajax_execute. */
int32_t hajax_convolve(const hj_convolution* call, const hj_parallel* parallel);
int32_t hajax_normalise_gated(const hj_gated_norm* call, const hj_parallel* parallel);

/* Threads of this library's own for callers that bring none: `threads` workers, the caller among them, started at first
 * use and kept for the life of the process. One caller at a time has them; another meanwhile works alone. */
const hj_parallel* hajax_cpu_parallel(int32_t threads);

/* The last error of the calling thread, valid until its next call. */
const char* hajax_last_error(void);

/* XLA FFI handlers: an XLA_FFI_CallFrame in, an XLA_FFI_Error or null out. */
void* hajax_xla_delta_rule(void* frame);
void* hajax_xla_delta_rule_backward(void* frame);

void* hajax_xla_convolution(void* frame);
void* hajax_xla_gated_norm(void* frame);
/* cffi: end */

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
