// Plans and calls that lie on a device, ready to be launched with addresses of its memory.
#ifndef HAJAX_NATIVE_ASCEND_HOST_PREPARED_H_
#define HAJAX_NATIVE_ASCEND_HOST_PREPARED_H_

#include <stdint.h>

#include <memory>
#include <vector>

#include "hajax/abi/ascend.h"
#include "native/ascend/host/acl_calls.h"
#include "native/ascend/host/plan_view.h"
#include "native/ascend/host/tables.h"

namespace hajax::ascend::host {

// What was opened before the latest reset() is gone with its device, and must not be given back.
void reset();
int64_t resets();

// A failure of the device that was found where nobody could be told, and the first such one that was kept.
void keep(const Failure& failure);
Failure take_kept();

// Memory of the context that was current when it was made; it is given back in that context, after the device has done
// with it.
class Placed {
 public:
  Placed() = default;
  ~Placed();
  Placed(const Placed&) = delete;
  Placed& operator=(const Placed&) = delete;

  Failure put(const std::vector<uint8_t>& bytes);
  aclrtContext context() const { return context_; }
  bool gone() const { return resets_ != resets(); }
  void* address() const { return memory_.address(); }

 private:
  Memory memory_;
  aclrtContext context_ = nullptr;
  int64_t resets_ = 0;
};

class Plan {
 public:
  // Checks the plan against the chip and the current device.
  Failure open(const Chip& chip, const void* plan, int64_t plan_bytes);

  const PlanView& view() const { return view_; }
  const Placed& placed() const { return placed_; }
  bool in_place() const { return in_place_; }

 private:
  std::vector<uint8_t> bytes_;
  PlanView view_;
  Placed placed_;
  bool in_place_ = false;
};

class Call {
 public:
  // `call` has sizes, bounds and the scale.
  Failure open(std::shared_ptr<const Plan> plan, const hj_delta_call& call);

  const hj_ascend_needs& needs() const { return needs_; }
  Failure launch(const hj_ascend_arrays& arrays, aclrtStream stream) const;

 private:
  Failure check(const hj_ascend_arrays& arrays) const;
  // What no kernel writes: output outside of sequences, states of empty ones; and what has to be zero.
  Failure queue_fills(const hj_ascend_arrays& arrays, aclrtStream stream) const;

  std::shared_ptr<const Plan> plan_;
  hj_ascend_needs needs_ = {};
  Workspace workspace_ = {};
  std::vector<Range> outside_, untouched_;
  Placed placed_;
};

}  // namespace hajax::ascend::host

#endif  // HAJAX_NATIVE_ASCEND_HOST_PREPARED_H_
