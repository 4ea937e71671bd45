// SyncAll between cores, in software as on the device: each core counts up its own block of 32 bytes in GM, and goes on
// when all have come. The emulator keeps the counting and what it asks of the two workspaces; the waiting is the
// launch's own barrier, and the copies by which the device looks at the others' blocks are left out.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_M200_SYNC_ALL_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_M200_SYNC_ALL_H_

#include "native/emulator/ascendc/common/pipe.h"

namespace hajax::ascendc {

HAJAX_API void check_workspaces(uint64_t gm_elements, Hardware place, uint32_t local_elements, int32_t used_cores) {
  const int64_t cores = hajax::emulator::block_count();
  const int64_t elements = cores * AscendC::DEFAULT_BLK_NUM;
  if (used_cores != 0 && used_cores != cores) {
    kernel_fault(Check::unsupported, Text() << "SyncAll: usedCores: expected 0 or all " << cores
                                            << " cores of the launch (a part is not emulated yet), got "
                                            << int64_t{used_cores});
  }
  if (gm_elements != 0) {
    expect_range("SyncAll", "elements of gmWorkspace, 8 a core", static_cast<int64_t>(gm_elements), elements,
                 INT64_MAX);
  }
  if (place != Hardware::UB) {
    kernel_fault(Check::unsupported,
                 Text() << "SyncAll: ubWorkspace: expected a tensor in UB, got one in " << name_of(place));
  }
  expect_range("SyncAll", "elements of ubWorkspace, 8 a core", local_elements, elements, INT64_MAX);
}

}  // namespace hajax::ascendc

namespace AscendC {

template <bool isAIVOnly = true>
HAJAX_API void SyncAll(const GlobalTensor<int32_t>& gmWorkspace, const LocalTensor<int32_t>& ubWorkspace,
                       int32_t usedCores = 0) {
  hajax::ascendc::check_workspaces(gmWorkspace.GetSize(), hajax::ascendc::hardware_of(ubWorkspace),
                                   ubWorkspace.GetSize(), usedCores);
  const int64_t own = int64_t{hajax::emulator::block_index()} * DEFAULT_BLK_NUM;
  int32_t* shared = hajax::ascendc::pointer(gmWorkspace) + own;
  int32_t* local = hajax::ascendc::pointer(ubWorkspace) + own;
  const LocalTensor<int32_t> counter = ubWorkspace[static_cast<uint32_t>(own)];
  pipe_barrier(PIPE_ALL);
  copy_gm_to_ubuf(local, shared, 0, 1, 1, 0, 0);
  hajax::ascendc::order("SyncAll", HardEvent::MTE2_S);
  const int32_t passed = counter.GetValue(0);
  if (passed < 0 || passed > hajax::emulator::sync_alls()) {
    hajax::ascendc::kernel_fault(
        hajax::ascendc::Check::limit,
        hajax::ascendc::Text()
            << "SyncAll: gmWorkspace: expected 0 before the first SyncAll, and what SyncAll wrote after "
               "it, got "
            << int64_t{passed} << " for this core: set it to zeros before the launch");
  }
  counter.SetValue(0, passed + 1);
  hajax::ascendc::order("SyncAll", HardEvent::S_MTE3);
  copy_ubuf_to_gm(shared, local, 0, 1, 1, 0, 0);
  hajax::ascendc::order("SyncAll", HardEvent::MTE3_MTE2);
  hajax::emulator::sync_all();
}

template <bool isAIVOnly = true>
void SyncAll() {
  static_assert(hajax::ascendc::never<std::bool_constant<isAIVOnly>>,
                "AscendC::SyncAll: without workspaces (by hardware): not on " HAJAX_CHIP
                ": use SyncAll(gmWorkspace, ubWorkspace) with 32 bytes a core in each");
}

}  // namespace AscendC

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_M200_SYNC_ALL_H_
