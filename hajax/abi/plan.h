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
  int32_t strengths; /* 1: beta erases and writes; 2: beta has a trailing axis of two, erase and write strength */
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
  int32_t group;         /* value heads of a task: a divisor of value_heads / key_heads, or all of some key heads */
  int32_t column_blocks; /* tasks that share a head's value columns, each taking whole panels */
  int32_t token_steps;   /* sequences of at most so many tokens run token by token */
  int32_t workers;       /* threads that may take tasks, the caller included */
  int32_t bf16_dot;      /* 1: by the CPU's products of bf16: everything on matrix tiles, else K.K^T and Q.K^T */
  int64_t scratch_bytes; /* for one worker, a multiple of 64 */
} hj_cpu_plan;

#define HJ_STEP_WORDS 3        /* 64-bit words of a step */
#define HJ_ADDRESS_UNIT 32     /* bytes that an address word of a step counts */
#define HJ_ALTERNATES 0x8000   /* bit of an address word: odd chunks use the second version of this buffer */
#define HJ_STAGES 3            /* loads, what needs no state, what does: each one iteration behind the one before */
#define HJ_CARRIES_FLAGS 0x100 /* bit of a program's stages: no barrier of all pipes parts iterations, flags do */
#define HJ_STAGE_MASK 3        /* bits of control: the step's stage */
#define HJ_BARRIER_BEFORE 4    /* bit of control: PipeBarrier of the step's own pipe first */
#define HJ_FIRST_CHUNK 8 /* bit of control: only in a sequence's first chunk; setup: if another program ran before */
#define HJ_LAST_CHUNK 16 /* bit of control: only in a sequence's last chunk; setup: on the versions of odd chunks */
#define HJ_ITEM_BYTES 32
#define HJ_SEQUENCE_BYTES 32
#define HJ_FRAME_BYTES 512 /* at the bottom of UB: the kernel's own variables */
#define HJ_MASKS 16        /* vector masks of a program */
#define HJ_SCALARS 32      /* scalar operands of a program; number 0 is the call's scale */
#define HJ_TARGET_NAME 28
#define HJ_MEETING_BYTES 384 /* GM in which the cores of a launch meet: 32 for each of hj_npu_launch's most */

/* A program of an Ascend core: one launch or several, each a list of items (work of one core, in order), and the
 * programs that they run. Every offset counts bytes from the start of the plan and is a multiple of 32. Order in the
 * file: this struct, launches, items, programs with their steps, masks and scalars, constants. */
typedef struct {
  hj_plan_header header;
  int32_t npu_arch; /* 2002 */
  int32_t chunk;    /* tokens */
  int32_t key_heads;
  int32_t value_heads;  /* a multiple of key_heads */
  int32_t key_dim;      /* a multiple of 16 */
  int32_t value_dim;    /* a multiple of 16 */
  int32_t input_dtype;  /* dtypes.def: query, key and value: float16 */
  int32_t output_dtype; /* float16 or float32 */
  int32_t sequences;    /* of all rows together: batch times sequences a row */
  int32_t launches;
  int32_t programs;
  int32_t items;
  int32_t launch_offset;  /* hj_npu_launch[launches] */
  int32_t item_offset;    /* hj_npu_item[items] */
  int32_t program_offset; /* hj_npu_program[programs] */
  int32_t constant_offset;
  int32_t constant_bytes;       /* fractals and vectors; the first HJ_ZERO_BYTES of them are zero */
  int32_t workspace_slot_bytes; /* GM between launches, for each value head and chunk; 0: none */
  char target[HJ_TARGET_NAME];  /* the chip it was planned for, of targets/, zero-padded */
  uint32_t checksum;            /* CRC-32, as zlib's, of all bytes of the plan with 0 here */
} hj_npu_plan;

#define HJ_ZERO_BYTES 8192 /* zeros to fill the rows of a last chunk from */

/* One launch: core c runs items first_item + c's share, which are contiguous. With sync_after the next one needs none
 * of its own: its cores, as many, meet (SyncAll) and go on with it in the same kernel. */
typedef struct {
  int32_t cores;
  int32_t first_item; /* of core 0 */
  int32_t sync_after; /* 1: the next launch follows behind a barrier of all cores; never of the last one */
  int32_t reserved;
  int32_t core_items[12]; /* items of each core */
} hj_npu_launch;

/* A piece of work for one core: `heads` value heads of one sequence and a range of state columns. */
typedef struct {
  int32_t program;
  int32_t sequence;    /* row of the call's sequence table */
  int32_t head;        /* first value head */
  int32_t column;      /* first state column, a multiple of 16 */
  int32_t first_chunk; /* counted in chunks of the sequence */
  int32_t chunks;      /* most of them; -1: to the sequence's end */
  int32_t reserved[2];
} hj_npu_item;

/* A sequence of a call, made by the host when it runs. */
typedef struct {
  int64_t token; /* its first token, over all rows: row * T + start */
  int64_t gate;  /* its first entry in the head-major gate arrays, a multiple of chunk */
  int32_t tokens;
  int32_t state; /* its row of state_in and state_out */
  int32_t reserved[2];
} hj_npu_sequence;

/* What one launch needs of its call: in GM, made by the host when it runs. */
typedef struct {
  int64_t sequence_offset; /* bytes from this struct to hj_npu_sequence[sequences], a multiple of 32 */
  int64_t gates;           /* entries of a head in the gate arrays: chunks of all sequences times chunk */
  int32_t launch;          /* which one of the plan's */
  float scale;
  int64_t meeting_offset; /* bytes from the workspace's start to HJ_MEETING_BYTES of zeros, where launches are synced */
} hj_npu_call;

/* Straight-line code three times: once before an item, once for every iteration, once after it. Each section, and each
 * iteration too unless the program has HJ_CARRIES_FLAGS, ends with a barrier of all pipes. Flags pair up over setup,
 * any number of iterations and finish: one may be set in setup and, behind its wait, in each iteration, and taken in
 * finish.
 */
typedef struct {
  int32_t heads;       /* value heads side by side */
  int32_t columns;     /* state columns of an item */
  int32_t step_offset; /* hj_step[setup + body + finish] */
  int32_t setup;
  int32_t body;
  int32_t finish;
  int32_t step_address; /* UB bytes where the kernel keeps the steps */
  int32_t stages;       /* 1 .. HJ_STAGES: iterations of an item are its chunks and stages - 1 more; HJ_CARRIES_FLAGS */
  int32_t slot_bytes[8];        /* by spaces.def: distance of an alternating buffer's two versions */
  int32_t peak_bytes[8];        /* by spaces.def: what the program uses, steps and frame included */
  uint64_t masks[2 * HJ_MASKS]; /* low and high; number 0 is all lanes */
  float scalars[HJ_SCALARS];
} hj_npu_program;

/* One step: one or a few like instructions of one pipe; opcodes.def says which fields an opcode reads. */
typedef struct {
  uint8_t opcode;
  uint8_t control; /* stage, barrier, first and last chunk */
  uint8_t wait[2]; /* flags.def: row * 8 + event id, taken before the step; 0: none */
  uint8_t set[2];  /* likewise, set after it */
  uint8_t count;
  uint8_t index;
  uint16_t dst; /* addresses in units of HJ_ADDRESS_UNIT, bit 15 as HJ_ALTERNATES */
  uint16_t src0;
  uint16_t src1;
  uint16_t size;
  uint8_t p[8];
} hj_step;
/* cffi: end */

#endif
