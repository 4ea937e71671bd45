/* The C interface of libhajax_ascend: plans on a device, launched with addresses of device memory on a stream. On a
 * chip it stands on CANN's ACL, in libhajax_sim on the emulator's. Plans and calls belong to the device that was
 * current when they were opened; a thread that uses them has that device current. Functions are safe to call from
 * several threads, one thread a handle at a time. */
#ifndef HAJAX_ABI_ASCEND_H_
#define HAJAX_ABI_ASCEND_H_

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
typedef struct hj_ascend_plan hj_ascend_plan;
typedef struct hj_ascend_call hj_ascend_call;

/* What the arrays of a call take. Gates are entries of a head in the head-major arrays: every sequence's tokens in
 * whole chunks, in the order of the sequences. */
typedef struct {
  int64_t query_bytes; /* of key too */
  int64_t value_bytes;
  int64_t log_decay_bytes;
  int64_t strength_bytes; /* of beta, and of erase */
  int64_t state_bytes;    /* of all sequences, before and after */
  int64_t output_bytes;
  int64_t workspace_bytes; /* at least 32 */
  int64_t gates;
  int32_t chunk;
  int32_t launches;  /* kernels that a launch queues; 0: every sequence is empty */
  int32_t cores;     /* most of a kernel */
  int32_t strengths; /* 1: erase is not read; 2 */
  int32_t in_place;  /* 1: state_out may be state_in itself */
  int32_t reserved;
} hj_ascend_needs;

/* Device addresses, each a multiple of 32, laid out as tensors.def says; gates are zero behind a sequence's tokens. Log
 * decays are at most 0 and at least -1e4, everything is finite: nothing on the host looks at them. */
typedef struct {
  const void* query;
  const void* key;
  const void* value;
  const void* log_decay; /* zeros without a decay */
  const void* beta;
  const void* erase; /* null with one strength */
  const void* state_in;
  void* output;    /* zeroed outside every sequence */
  void* state_out; /* of an empty sequence: state_in's */
  void* workspace; /* of no meaning before and after */
} hj_ascend_arrays;

/* 64 hexadecimal digits: the SHA-256 of hajax/abi that this library was built with. */
const char* hajax_ascend_abi_digest(void);

/* The last error of the calling thread, valid until its next call. Every function that returns int32_t returns 0, or a
 * status of statuses.def with this set. */
const char* hajax_ascend_last_error(void);

/* Makes the device current in this thread, for callers without a framework that has done so; ACL is initialised at the
 * first time. Each is closed as often as it was opened. */
int32_t hajax_ascend_device_open(int32_t device);
int32_t hajax_ascend_device_close(int32_t device);
/* Gives up everything that this process has on devices, also on one that is lost: every handle of this interface can
 * only be closed from then on, and a device must be opened again. Not for a process whose framework owns ACL. */
int32_t hajax_ascend_reset(void);

/* The name of the chip as ACL gives it ("Ascend310P3"), null with the last error set; cores of the current device. */
const char* hajax_ascend_soc_name(void);
int32_t hajax_ascend_cores(int32_t* cores);
/* Of the current device, in bytes. */
int32_t hajax_ascend_memory(int64_t* free_bytes, int64_t* total_bytes);

/* Memory of the current device and streams, for callers without a framework. Copies wait until they are done, but not
 * for streams. */
int32_t hajax_ascend_allocate(int64_t bytes, uint64_t* address);
int32_t hajax_ascend_free(uint64_t address);
int32_t hajax_ascend_write(uint64_t address, const void* from, int64_t bytes);
int32_t hajax_ascend_read(uint64_t address, void* to, int64_t bytes);
int32_t hajax_ascend_stream_open(uint64_t* stream);
int32_t hajax_ascend_stream_close(uint64_t stream);

/* Waits for everything queued on a stream (an aclrtStream; 0: the context's own) and tells what went wrong on it. */
int32_t hajax_ascend_synchronize(uint64_t stream);

/* Two marks on a stream and the device's time between them, once the stream has reached the second. */
int32_t hajax_ascend_event_open(uint64_t* event);
int32_t hajax_ascend_event_close(uint64_t event);
int32_t hajax_ascend_event_record(uint64_t event, uint64_t stream);
int32_t hajax_ascend_event_elapsed(uint64_t from, uint64_t to, double* microseconds);

/* Checks every field of a plan against the chip's table and the current device, and puts its bytes there. */
int32_t hajax_ascend_plan_open(const hj_target* chip, const void* plan, int64_t plan_bytes, hj_ascend_plan** opened);
/* Waits for the device first, as a kernel may still read the plan. Null is closed already. */
int32_t hajax_ascend_plan_close(hj_ascend_plan* plan);

/* Prepares launches of a plan for B rows of T tokens with N sequences each and these bounds int32[B, N + 1], in host
 * memory; the table that the kernel reads of them is put on the device. It keeps the plan. */
int32_t hajax_ascend_call_open(hj_ascend_plan* plan, int64_t batch, int64_t tokens, int64_t sequences,
                               const int32_t* bounds, float scale, hj_ascend_call** opened);
int32_t hajax_ascend_call_needs(const hj_ascend_call* call, hj_ascend_needs* needs);
/* As for plans. */
int32_t hajax_ascend_call_close(hj_ascend_call* call);

/* Queues the call's kernels on a stream, with what has to be zeroed or copied for them, and returns: nothing is
 * allocated, awaited or read. */
int32_t hajax_ascend_launch(const hj_ascend_call* call, const hj_ascend_arrays* arrays, uint64_t stream);
/* cffi: end */

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
