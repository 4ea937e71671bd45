// Masks of vector calls: by hand (SetMaskCount, SetMaskNorm, SetVectorMask, ResetMask), and those that calls set
// themselves.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_MASK_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_MASK_H_

#include "native/emulator/ascendc/common/params_vector.h"
#include "native/emulator/ascendc/common/tensor.h"
#include "native/emulator/instructions/vector.h"

namespace AscendC {

// From here on masks count elements over all repeats of a call.
HAJAX_API void SetMaskCount() { set_mask_count(); }
// From here on masks have a bit for each lane of a repeat.
HAJAX_API void SetMaskNorm() { set_mask_norm(); }
HAJAX_API void ResetMask() { set_vector_mask(FULL_MASK, FULL_MASK); }

template <typename T, MaskMode mode = MaskMode::NORMAL>
HAJAX_API void SetVectorMask(uint64_t maskHigh, uint64_t maskLow) {
  set_vector_mask(maskHigh, maskLow);
}

}  // namespace AscendC

namespace hajax::ascendc {

using AscendC::FULL_MASK;

// The first `lanes` lanes of a repeat.
HAJAX_API void set_first_lanes(uint64_t lanes) {
  const uint64_t low = lanes >= 64 ? FULL_MASK : (uint64_t{1} << lanes) - 1;
  const uint64_t high = lanes >= 128 ? FULL_MASK : lanes > 64 ? (uint64_t{1} << (lanes - 64)) - 1 : 0;
  set_vector_mask(high, low);
}

// The mask argument of a call: a number of lanes ...
template <typename T, bool set>
HAJAX_API void use_mask(const char* api, uint64_t lanes) {
  if constexpr (set) {
    expect_range(api, "mask, a number of lanes", static_cast<int64_t>(lanes), 1, 256 / static_cast<int64_t>(sizeof(T)));
    set_first_lanes(lanes);
  }
}
// ... or a bit for each lane, low half first.
template <typename T, bool set>
HAJAX_API void use_mask(const char* api, const uint64_t mask[]) {
  if constexpr (set) {
    if (mask[0] == 0 && (mask[1] == 0 || sizeof(T) == 4)) {
      kernel_fault(Check::limit, Text() << api << ": mask: expected at least one lane, got none");
    }
    set_vector_mask(mask[1], mask[0]);
  }
}

// The mask of a call on the first `count` elements, in counter mode.
template <typename T>
HAJAX_API void set_count(const char* api, int64_t count) {
  expect_range(api, "count", count, 0, AscendC::TOTAL_UB_SIZE / static_cast<int64_t>(sizeof(T)));
  set_vector_mask(0, static_cast<uint64_t>(count));
}
// Such a call's counter mode around one instruction.
template <typename T>
HAJAX_API void begin_count(const char* api, int64_t count) {
  set_mask_count();
  set_count<T>(api, count);
}
HAJAX_API void end_count() {
  set_mask_norm();
  set_vector_mask(FULL_MASK, FULL_MASK);
}

}  // namespace hajax::ascendc

namespace AscendC {

template <typename T, MaskMode mode = MaskMode::NORMAL>
HAJAX_API void SetVectorMask(int32_t len) {
  if constexpr (mode == MaskMode::COUNTER) {
    hajax::ascendc::expect_range("SetVectorMask", "len", len, 0, INT32_MAX);
    set_vector_mask(0, static_cast<uint64_t>(len));
  } else {
    hajax::ascendc::use_mask<T, true>("SetVectorMask", static_cast<uint64_t>(len));
  }
}

}  // namespace AscendC

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_MASK_H_
