#include "native/emulator/core/services.h"

#include "native/emulator/core/core.h"

namespace hajax::emulator {

uint8_t* space_base(Space space) { return core().base(space); }
int64_t space_size(Space space) { return core().size(space); }
int64_t reserved_base(Space space) { return core().size(space); }
void open_reserve(bool open) { core().open_reserve(open); }

Space space_of(const void* pointer) {
  Space space = Space::GM;
  core().locate(pointer, &space);
  return space;
}

int block_index() { return core().index(); }
int block_count() { return core().blocks(); }

void scalar_read(Space space, const void* address, int64_t bytes) {
  core().scalar_access(space, address, bytes, false, HAJAX_WHERE());
}

void scalar_write(Space space, const void* address, int64_t bytes) {
  core().scalar_access(space, address, bytes, true, HAJAX_WHERE());
}

void buffer_defined(Space space, int64_t offset, int64_t bytes) { core().buffer_defined(space, offset, bytes); }
void buffers_cleared() { core().buffers_cleared(); }
void tensor_allocated(Space space, int64_t offset, int64_t bytes) { core().tensor_allocated(space, offset, bytes); }
void tensor_freed(Space space, int64_t offset, int64_t bytes) { core().tensor_freed(space, offset, bytes); }
void sync_all() { core().sync_all(HAJAX_WHERE()); }
int64_t sync_alls() { return static_cast<int64_t>(core().counts().counts[static_cast<int>(Count::sync_alls)]); }
void charge_scalar(double cycles) { core().charge_cycles(cycles); }
void number_step(uint32_t program, uint32_t step) {
  constexpr uint32_t kBits = 16;
  core().step_number = program << kBits | ((step + 1) & ((1U << kBits) - 1));
}
void name_step(const char* step) { core().step = step == nullptr ? "" : step; }

void kernel_fault(Check check, const char* text) { core().fail(check, text == nullptr ? "" : text, HAJAX_WHERE()); }

}  // namespace hajax::emulator
