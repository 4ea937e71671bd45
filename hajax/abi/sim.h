/* The C interface of libhajax_sim, the emulated chip: open a device, give it memory, run a kernel, read what it did.
 * Every function is safe to call from several threads; one device runs one kernel at a time. */
#ifndef HAJAX_ABI_SIM_H_
#define HAJAX_ABI_SIM_H_

#include <stdint.h>

#include "hajax/abi/hajax.h"
#include "hajax/abi/target.h"

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* cffi: begin */
#define HJ_COUNTS 32    /* room over counts.def */
#define HJ_PATHS 16     /* room over paths.def */
#define HJ_PIPES 8      /* room over pipes.def */
#define HJ_TIMINGS 16   /* room over timing.def */
#define HJ_ARGUMENTS 32 /* most arguments of a kernel */

typedef struct {
  int32_t threads;          /* host threads, at least 1; nothing but speed depends on it */
  int32_t check_races;      /* 1: order of accesses between and within pipes, and between cores */
  int32_t check_written;    /* 1: reads of never-written or freed bytes */
  int32_t counts_only;      /* 1: no arithmetic, and only GM to UB moves data */
  int32_t fatal_saturation; /* 1: a value clamped to its type's range is an error */
  int32_t auto_barriers; /* 1: barriers between dependent vector instructions are put in, as the device compiler can */
  int32_t warm_l2;       /* 1: L2 keeps what earlier launches on this device left there; 0: it starts empty */
  int32_t timeline;      /* 1: the result keeps what its trace is made of, some 64 bytes an instruction */
} hj_sim_options;

/* What one core, or all of them, did. Over all cores, counts are sums, except for the peak_* of counts.def: the
 * largest. */
typedef struct {
  uint64_t counts[HJ_COUNTS];
  uint64_t path_bytes[HJ_PATHS];
  uint64_t path_transfers[HJ_PATHS];
  uint64_t instructions[HJ_INSTRUCTIONS];
  uint64_t pipe_instructions[HJ_PIPES];
  double busy_cycles[HJ_PIPES]; /* modelled */
} hj_sim_counts;

typedef struct hj_sim_device hj_sim_device;
typedef struct hj_sim_result hj_sim_result;

/* 64 hexadecimal digits: the SHA-256 of hajax/abi that this library was built with. */
const char* hajax_sim_abi_digest(void);

/* The chips that are built in: name of the index-th, null past the last; and a chip's table, null for an unknown name.
 */
const char* hajax_sim_target_name(int32_t index);
const hj_target* hajax_sim_target(const char* name);

/* The last error of the calling thread, valid until its next call. */
const char* hajax_sim_last_error(void);

/* A chip of this table with empty memory, or null. Closing it frees its memory. */
hj_sim_device* hajax_sim_device_open(const hj_target* target);
void hajax_sim_device_close(hj_sim_device* device);

/* Device memory by its host address, rounded up to 32 bytes, never written; 0 when there is no room. The other calls
 * return 0, or a status of statuses.def with hajax_sim_last_error set. */
uint64_t hajax_sim_allocate(hj_sim_device* device, int64_t bytes);
int32_t hajax_sim_free(hj_sim_device* device, uint64_t address);
int32_t hajax_sim_write(hj_sim_device* device, uint64_t address, const void* from, int64_t bytes);
/* Bytes that nothing ever wrote are given as 0xff, which is a NaN in every floating-point type. */
int32_t hajax_sim_read(hj_sim_device* device, uint64_t address, void* to, int64_t bytes);
/* How many of these bytes nothing ever wrote, or -1. */
int64_t hajax_sim_unwritten(hj_sim_device* device, uint64_t address, int64_t bytes);

/* A shared library with kernels that were built against the emulator's headers, or null; a kernel's address in it, or
 * 0. */
void* hajax_sim_library_open(const char* path);
uint64_t hajax_sim_function(void* library, const char* name);
void hajax_sim_library_close(void* library);

/* Runs a kernel on `blocks` cores. Its arguments are 64-bit words: device addresses and integers. Returns 0 with a
 * result, also when a check failed; else a status of statuses.def with hajax_sim_last_error set and no result. */
int32_t hajax_sim_launch(hj_sim_device* device, uint64_t function, const char* kernel, int32_t blocks,
                         const uint64_t* arguments, int32_t count, const hj_sim_options* options,
                         hj_sim_result** result);
void hajax_sim_result_close(hj_sim_result* result);

/* Name of the check of checks.def that failed and the whole message; null when none did. */
const char* hajax_sim_result_check(const hj_sim_result* result);
const char* hajax_sim_result_fault(const hj_sim_result* result);
int32_t hajax_sim_result_blocks(const hj_sim_result* result);
/* Of one core, or of all of them for core -1. Returns 0, or a status. */
int32_t hajax_sim_result_counts(const hj_sim_result* result, int32_t core, hj_sim_counts* counts);
/* Modelled, by timing.def; zeros after a fault. Returns 0, or a status. */
int32_t hajax_sim_result_timing(const hj_sim_result* result, double* timing);
/* Chrome trace JSON, valid until the result is closed. Null with hajax_sim_last_error set, also when the launch
 * did not ask for a timeline. The kernel's library must still be open. */
const char* hajax_sim_result_trace(hj_sim_result* result);

/* Runs a plan (plan.h) with the arrays of `call`, which lie in host memory: the kernel and the host code of a device,
 * on an emulated one. `target` null: the chip that the plan names. `options` null: HAJAX_SIM_FAST and HAJAX_SIM_THREADS
 * decide. `results` has room for *count of them; *count becomes how many there are: one a launch, up to the one whose
 * check failed. With `results` null none is kept and a failed check is a status. `counters` may be null. Returns 0, or
 * a status of statuses.def with hajax_sim_last_error set and no results. */
int32_t hajax_sim_execute(const hj_target* target, const void* plan, int64_t plan_bytes, const hj_delta_call* call,
                          const hj_sim_options* options, int64_t* counters, hj_sim_result** results, int32_t* count);
/* The same with the kernel that was made of this plan's programs, of the shared library at this path, instead of the
 * one that walks any plan. Refused when the library has no such kernel. The trace of a result needs the library open.
 */
int32_t hajax_sim_execute_special(const char* library, const hj_target* target, const void* plan, int64_t plan_bytes,
                                  const hj_delta_call* call, const hj_sim_options* options, int64_t* counters,
                                  hj_sim_result** results, int32_t* count);

/* XLA FFI handler: an XLA_FFI_CallFrame in, an XLA_FFI_Error or null out. */
void* hajax_sim_xla_delta_rule(void* frame);

/* What the handler's calls did, kept in order from the moment that somebody asks for it. `on`: 1 asks, 2 asks for
 * timelines too, 0 takes the latest such wish back; without any, what nobody took is forgotten. */
typedef struct hj_sim_record hj_sim_record;
void hajax_sim_record(int32_t on);
/* The oldest call that is kept, or null; it belongs to the caller until it is closed. */
hj_sim_record* hajax_sim_record_take(void);
const void* hajax_sim_record_plan(const hj_sim_record* record, int64_t* plan_bytes);
int32_t hajax_sim_record_launches(const hj_sim_record* record);
/* The result of a launch, given away once: to be closed by the caller. Null for any other number. */
hj_sim_result* hajax_sim_record_result(hj_sim_record* record, int32_t launch);
void hajax_sim_record_close(hj_sim_record* record);

/* Modelled cycles that one instruction of instructions.def keeps its pipe busy; path is -1 or one of paths.def; of the
 * bytes, `missed` are not in L2. -1 when an argument is out of range. */
double hajax_sim_instruction_cycles(const hj_target* target, int32_t instruction, int64_t units, int64_t bytes,
                                    int32_t path, int64_t missed);

/* Faults of the fake ACL runtime: "malloc:3", "launch:1", "execute:2", "memcpy:1", "device_lost:2", several with
 * commas, "" for none; counted from this call on. Returns 0, or a status when the text is none of these.
 * HAJAX_SIM_INJECT sets it too. */
int32_t hajax_sim_inject(const char* faults);
/* cffi: end */

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
