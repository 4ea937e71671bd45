/* What the emulator and the cost model know of a chip. Filled from the .def files of hajax/targets by name, in C++ and
 * in Python. */
#ifndef HAJAX_ABI_TARGET_H_
#define HAJAX_ABI_TARGET_H_

#include <stdint.h>

/* cffi: begin */
#define HJ_INSTRUCTIONS 96 /* room in every array over instructions.def */

/* Cycles that an instruction keeps its pipe busy: start + per_unit * units. Units: repeats (vector), 16x16x16 tiles
 * (cube), 512-byte fractals (loads); moves take their path's rate instead of per_unit. */
typedef struct {
  double start;
  double per_unit;
} hj_cost;

typedef struct {
  /* the chip */
  int64_t npu_arch; /* __NPU_ARCH__ */
  int64_t ai_cores;
  int64_t vector_cores;
  double clock_mhz;
  /* sizes in bytes */
  int64_t l1_bytes;
  int64_t l0a_bytes;
  int64_t l0b_bytes;
  int64_t l0c_bytes;
  int64_t ub_bytes;
  int64_t ub_reserved_bytes; /* at the top of UB, for the API's own temporaries */
  int64_t l2_bytes;
  int64_t l2_line_bytes;
  int64_t l2_ways;
  int64_t gm_bytes;
  /* rates in bytes per cycle and core */
  double gm_ddr_read_rate;
  double gm_ddr_write_rate;
  double gm_l2_read_rate;
  double gm_l2_write_rate;
  double l1_to_l0a_rate;
  double l1_to_l0b_rate;
  double l1_to_ub_rate;
  double ub_to_l1_rate;
  double l0c_to_ub_rate;
  double ub_to_l0c_rate;
  double ub_to_ub_rate;
  double sustained_share; /* of a GM or UB-to-L1 rate that long copies reach */
  /* cycles from an instruction's last busy cycle to the moment its result is there; successors on the pipe overlap it
   */
  double gm_read_latency;
  double gm_write_latency;
  double l1_latency; /* moves out of L1 and from UB to L1 */
  double cube_latency;
  /* scalar unit */
  double issue_cycles;       /* of S, to put one instruction into a pipe's queue */
  double argument_cycles;    /* of S, beside that, to load the arguments of an instruction that is no flag or barrier */
  double flag_cycles;        /* of the pipe, for a set, a wait or a barrier */
  double scalar_load_cycles; /* of S, from UB */
  double scalar_gm_cycles;   /* of S, to or from GM */
  double sync_all_cycles;    /* from the last core's arrival until all go on */
  double launch_cycles;      /* from the host's launch to the first instruction, and back */
  int64_t queue_depth;       /* instructions that S may run ahead of one pipe */
  int64_t flags_per_pair;    /* event ids of an ordered pair of pipes */
  int64_t first_reserved_flag; /* ids from here on belong to the API; flags_per_pair when none do */
  int64_t cube_barrier_tiles;  /* accumulating products of fewer 16x16 tiles need a barrier between them */
  /* energy */
  double pj_per_mac;         /* fp16 x fp16, accumulated in fp32 */
  double pj_per_vector_lane; /* one 32-bit lane of one vector instruction */
  double pj_per_ddr_byte;
  double pj_per_l2_byte;
  double pj_per_l1_byte; /* one byte into or out of L1 */
  double pj_per_l0_byte; /* one byte into or out of L0A, L0B or L0C */
  double pj_per_ub_byte; /* one byte into or out of UB */
  double static_watts;   /* whole chip */
  hj_cost cost[HJ_INSTRUCTIONS];
} hj_target;
/* cffi: end */

#endif
