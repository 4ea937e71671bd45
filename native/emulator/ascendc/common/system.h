// What a kernel asks of its core, and settings that outlive a call: GetBlockIdx, InitSocState, workspaces, atomic adds,
// the scalar unit's data cache.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_SYSTEM_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_SYSTEM_H_

#include "native/emulator/ascendc/common/tensor.h"
#include "native/emulator/instructions/move.h"
#include "native/emulator/instructions/scalar.h"
#include "native/emulator/instructions/sync.h"
#include "native/emulator/instructions/vector.h"

namespace AscendC {

HAJAX_API int64_t GetBlockIdx() { return get_block_idx(); }
HAJAX_API int64_t GetBlockNum() { return get_block_num(); }
// Cube and vector unit are one core here.
constexpr int64_t GetSubBlockIdx() { return 0; }
constexpr int64_t GetSubBlockNum() { return 1; }
constexpr int64_t GetTaskRatio() { return 1; }
constexpr int64_t GetTaskRation() { return 1; }  // the older name

constexpr uint32_t GetUBSizeInBytes() { return TOTAL_UB_SIZE; }
HAJAX_API uint32_t GetRuntimeUBSize() {
  return static_cast<uint32_t>(hajax::emulator::space_size(hajax::ascendc::Space::UB));
}

// Neither chip's sets the vector mask.
HAJAX_API void InitSocState() {
  set_atomic_none();
#if __NPU_ARCH__ == 3002
  set_padding(0);
#endif
}

[[noreturn]] HAJAX_API void Trap() { trap(); }

inline thread_local GM_ADDR g_sysWorkspaceReserved = nullptr;
HAJAX_API void SetSysWorkspace(GM_ADDR workspace) { g_sysWorkspaceReserved = workspace; }
HAJAX_API void SetSysWorkspaceForce(GM_ADDR workspace) { g_sysWorkspaceReserved = workspace; }
HAJAX_API GM_ADDR GetSysWorkSpacePtr() { return g_sysWorkspaceReserved; }
// The whole workspace: the emulated system keeps nothing in it.
HAJAX_API GM_ADDR GetUserWorkspace(GM_ADDR workspace) { return workspace; }

// Copies from UB to GM add to what is there, until SetAtomicNone.
template <typename T>
HAJAX_API void SetAtomicType() {
#if __NPU_ARCH__ == 2002
  static_assert(SupportType<T, float, half, int16_t>(),
                "AscendC::SetAtomicAdd: on " HAJAX_CHIP " for float, half, int16_t");
#else
  static_assert(SupportType<T, float, half, int16_t, int32_t>(),
                "AscendC::SetAtomicAdd: on " HAJAX_CHIP " emulated for float, half, int16_t, int32_t");
#endif
  if constexpr (std::is_same_v<T, float>) set_atomic_f32();
  if constexpr (std::is_same_v<T, half>) set_atomic_f16();
  if constexpr (std::is_same_v<T, int16_t>) set_atomic_s16();
  if constexpr (std::is_same_v<T, int32_t>) set_atomic_s32();
}
template <typename T>
HAJAX_API void SetAtomicAdd() {
  SetAtomicType<T>();
#if __NPU_ARCH__ != 2002
  set_atomic_add();
#endif
}
HAJAX_API void SetAtomicNone() { set_atomic_none(); }
HAJAX_API void DisableDmaAtomic() { set_atomic_none(); }

template <typename T, CacheLine entireType>
HAJAX_API void DataCacheCleanAndInvalid(const GlobalTensor<T>& dst) {
  dcci(hajax::ascendc::pointer(dst), static_cast<uint64_t>(entireType));
}
#if __NPU_ARCH__ == 2002
template <typename T, CacheLine entireType, DcciDst dcciDst>
void DataCacheCleanAndInvalid(const GlobalTensor<T>&) {
  static_assert(hajax::ascendc::never<T>,
                "AscendC::DataCacheCleanAndInvalid: with DcciDst: not on " HAJAX_CHIP ": give the CacheLine alone");
}
#else
template <typename T, CacheLine entireType, DcciDst dcciDst>
HAJAX_API void DataCacheCleanAndInvalid(const GlobalTensor<T>& dst) {
  dcci(hajax::ascendc::pointer(dst), static_cast<uint64_t>(entireType), static_cast<uint64_t>(dcciDst));
}
#endif

}  // namespace AscendC

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_SYSTEM_H_
