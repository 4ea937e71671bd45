// What the Ascend C headers (and other code compiled into a kernel) ask of the emulator: plain functions of the running
// core. `where` is the return address that messages turn into a source line; HAJAX_WHERE() gives it.
#ifndef HAJAX_NATIVE_EMULATOR_CORE_SERVICES_H_
#define HAJAX_NATIVE_EMULATOR_CORE_SERVICES_H_

#include <stdint.h>

#include "native/emulator/core/half.h"
#include "native/emulator/core/lists.h"

// In a function of libhajax_sim, the address in the kernel's code that it was called from.
#define HAJAX_WHERE() __builtin_return_address(0)

#pragma GCC visibility push(default)
namespace hajax::emulator {

uint8_t* space_base(Space space);     // host address of offset 0 in the running core's memory
int64_t space_size(Space space);      // bytes a kernel may use
int64_t reserved_base(Space space);   // offset of the API's own temporaries (UB: its top 8 KiB on 310P)
void open_reserve(bool open);         // while open, instructions may use that part
Space space_of(const void* pointer);  // GM when no memory of the core holds it
int block_index();
int block_count();

// GetValue and SetValue: checks, ordering against the pipes, cost. The caller touches the bytes afterwards.
void scalar_read(Space space, const void* address, int64_t bytes);
void scalar_write(Space space, const void* address, int64_t bytes);

// Buffers that InitBuffer lays out. An access that starts in one must end in it, though its neighbour follows at once.
void buffer_defined(Space space, int64_t offset, int64_t bytes);
void buffers_cleared();

// The life of a tensor: from these on its bytes are undefined, then inaccessible.
void tensor_allocated(Space space, int64_t offset, int64_t bytes);
void tensor_freed(Space space, int64_t offset, int64_t bytes);

void sync_all();                    // SyncAll between the cores of this launch
int64_t sync_alls();                // how many of them this core has passed
void charge_scalar(double cycles);  // scalar work that host C++ would hide
void name_step(const char* step);   // "" ends it; named in messages
// Step `step` of program `program` of a kernel that walks through steps: named with each instruction that it issues, in
// messages and timelines. At most 65534 and 65535.
void number_step(uint32_t program, uint32_t step);

// Ends the kernel with an error of that check. The text says what, where, expected and got.
[[noreturn]] void kernel_fault(Check check, const char* text);

}  // namespace hajax::emulator
#pragma GCC visibility pop

#endif  // HAJAX_NATIVE_EMULATOR_CORE_SERVICES_H_
