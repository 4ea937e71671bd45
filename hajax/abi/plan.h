/* The binary form of a plan, read by C++ as a header and by Python through cffi.
 * Fixed-width integers, no pointers, no unions, explicit padding; the structs between the markers are the only
 * definition. */
#ifndef HAJAX_ABI_PLAN_H_
#define HAJAX_ABI_PLAN_H_

#include <stdint.h>

/* cffi: begin */
#define HJ_PLAN_MAGIC 0x4e4c504a /* the bytes "JPLN" */
#define HJ_DIGEST_BYTES 32

/* What every plan starts with, whatever executes it. */
typedef struct {
  uint32_t magic;
  uint32_t total_bytes;                /* header included */
  uint8_t abi_digest[HJ_DIGEST_BYTES]; /* SHA-256 of hajax/abi, compared with the library's on every call */
  int32_t backend;                     /* backends.def */
  int32_t decay;                       /* decays.def */
  int32_t delta;                       /* 1: the state is corrected by what it predicts; 0: plain accumulation */
  int32_t reserved;
} hj_plan_header;

/* A fused CPU launch: no steps, only how the one routine is cut up. Batch, tokens and sequences are read from the call.
 */
typedef struct {
  hj_plan_header header;
  int32_t isa;          /* isas.def */
  int32_t input_dtype;  /* dtypes.def: query, key and value */
  int32_t output_dtype; /* dtypes.def */
  int32_t key_heads;
  int32_t value_heads;   /* a multiple of key_heads */
  int32_t key_dim;       /* a multiple of 8, at most 256 */
  int32_t value_dim;     /* likewise */
  int32_t chunk;         /* tokens a chunk: 16, 32, 64 or 128 */
  int32_t panel;         /* state columns that are updated together; fixed by the ISA's register file */
  int32_t group;         /* value heads of one key head that a task carries; divides value_heads / key_heads */
  int32_t column_blocks; /* tasks that share a head's value columns, each taking whole panels */
  int32_t token_steps;   /* sequences of at most so many tokens run token by token */
  int32_t workers;       /* threads that may take tasks, the caller included */
  int32_t bf16_dot;      /* 1: K.K^T and Q.K^T of bf16 inputs through the CPU's bf16 dot product */
  int64_t scratch_bytes; /* for one worker, a multiple of 64 */
} hj_cpu_plan;
/* cffi: end */

#endif
