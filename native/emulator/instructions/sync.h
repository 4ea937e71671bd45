// Flags between pipes, barriers within one, and what a kernel asks of its core. Defined by the SetFlag/WaitFlag,
// PipeBarrier, DataCacheCleanAndInvalid and GetBlockIdx pages of the Ascend C API reference.
#ifndef HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_SYNC_H_
#define HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_SYNC_H_

#include "native/emulator/instructions/types.h"

#pragma GCC visibility push(default)

// Events are integers here, so that one outside of event_t is seen and not cut off.
void set_flag(pipe_t from, pipe_t to, int32_t event);
void wait_flag(pipe_t from, pipe_t to, int32_t event);
void pipe_barrier(pipe_t pipe);  // PIPE_ALL: S waits for every pipe

// Writes the scalar unit's data cache back and empties it: one line, or all of it. The emulator has no such cache, so
// that only the time counts.
void dcci(__gm__ void* address, uint64_t lines);
void dcci(__gm__ void* address, uint64_t lines, uint64_t destination);

int64_t get_block_idx();
int64_t get_block_num();

#pragma GCC visibility pop

#endif  // HAJAX_NATIVE_EMULATOR_INSTRUCTIONS_SYNC_H_
