// What a call of a plan takes: bytes of its arrays, its workspace, and the tables that the kernel reads of it.
#ifndef HAJAX_NATIVE_ASCEND_HOST_TABLES_H_
#define HAJAX_NATIVE_ASCEND_HOST_TABLES_H_

#include <stdint.h>

#include <vector>

#include "hajax/abi/hajax.h"
#include "native/ascend/host/gates.h"
#include "native/ascend/host/launch.h"
#include "native/ascend/host/plan_view.h"

namespace hajax::ascend::host {

struct Sizes {
  int64_t key;        // bytes of query, and of key
  int64_t value;      // bytes
  int64_t log_decay;  // bytes
  int64_t strength;   // bytes of beta, and of erase
  int64_t row;        // bytes of a token's output
  int64_t output;     // bytes
  int64_t state;      // bytes of a sequence's state
};

Sizes sizes_of(const PlanView& view, const hj_delta_call& call, const Sequences& sequences);

// The workspace: slots, then for each launch that is synced where its cores meet, zeroed, as they count there.
struct Workspace {
  int64_t slots;     // bytes
  int64_t meetings;  // bytes
};

// Refuses one of no size that fits.
Failure workspace_of(const PlanView& view, const Sequences& sequences, Workspace* workspace);

// An hj_npu_call a launch, then the one table of sequences. A launch that follows another needs none and has one.
std::vector<uint8_t> call_bytes(const PlanView& view, const hj_delta_call& call, const Sequences& sequences,
                                const Workspace& workspace);

struct Range {
  int64_t offset;
  int64_t bytes;
};

// Of the output: tokens before a row's first sequence and behind its last, which no kernel writes.
std::vector<Range> outside(const hj_delta_call& call, const Sizes& sizes);
// Of the states: those of empty sequences, which no kernel writes.
std::vector<Range> untouched(const Sequences& sequences, const Sizes& sizes);

// Whether each state is read only by the item that writes it, so that it may be written where it was.
bool in_place(const PlanView& view);

// Kernels that a launch queues.
int32_t kernels_of(const PlanView& view, const Sequences& sequences);

// Queues all kernels of a plan, one after the other. `arguments.call` is the address of the tables.
Failure queue_kernels(const PlanView& view, const Kernel& kernel, const KernelArguments& arguments, aclrtStream stream);

}  // namespace hajax::ascend::host

#endif  // HAJAX_NATIVE_ASCEND_HOST_TABLES_H_
