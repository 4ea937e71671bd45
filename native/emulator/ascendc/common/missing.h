// Calls that neither chip has with emulation, under their own signatures where arguments are often given in braces.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_MISSING_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_MISSING_H_

#include "native/emulator/ascendc/common/params_copy.h"
#include "native/emulator/ascendc/common/params_cube.h"
#include "native/emulator/ascendc/common/params_vector.h"
#include "native/emulator/ascendc/common/refuse.h"
#include "native/emulator/ascendc/common/tensor.h"

// As a template on T.
#define HAJAX_REFUSED(Name, Arguments, advice)                                                 \
  template <typename T, bool isSetMask = true>                                                 \
  void Name Arguments {                                                                        \
    static_assert(hajax::ascendc::never<T>, "AscendC::" #Name ": " HAJAX_LACKING ": " advice); \
  }

namespace AscendC {

#define HAJAX_PAD_ADVICE "pad GM to whole blocks of 32 bytes, or copy more than is needed and ignore the rest"
HAJAX_REFUSED(DataCopyPad,
              (const LocalTensor<T>&, const GlobalTensor<T>&, const DataCopyParams&, const DataCopyPadParams&),
              HAJAX_PAD_ADVICE)
HAJAX_REFUSED(DataCopyPad,
              (const LocalTensor<T>&, const GlobalTensor<T>&, const DataCopyExtParams&, const DataCopyPadExtParams<T>&),
              HAJAX_PAD_ADVICE)
HAJAX_REFUSED(DataCopyPad, (const GlobalTensor<T>&, const LocalTensor<T>&, const DataCopyParams&), HAJAX_PAD_ADVICE)
HAJAX_REFUSED(DataCopyPad, (const GlobalTensor<T>&, const LocalTensor<T>&, const DataCopyExtParams&), HAJAX_PAD_ADVICE)
HAJAX_REFUSED(DataCopyPad, (const LocalTensor<T>&, const LocalTensor<T>&, const DataCopyParams&, const Nd2NzParams&),
              HAJAX_PAD_ADVICE)
HAJAX_REFUSED(DataCopyPad, (const LocalTensor<T>&, const LocalTensor<T>&, const DataCopyExtParams&, const Nd2NzParams&),
              HAJAX_PAD_ADVICE)
#undef HAJAX_PAD_ADVICE

HAJAX_REFUSED(Copy, (const LocalTensor<T>&, const LocalTensor<T>&, uint64_t, int64_t, const CopyRepeatParams&),
              "use DataCopy within UB, or Adds with 0")
HAJAX_REFUSED(Copy, (const LocalTensor<T>&, const LocalTensor<T>&, const uint64_t[], int64_t, const CopyRepeatParams&),
              "use DataCopy within UB, or Adds with 0")
HAJAX_REFUSED(LoadDataWithTranspose, (const LocalTensor<T>&, const LocalTensor<T>&, const LoadData2dTransposeParams&),
              "use LoadData with ifTranspose")
HAJAX_REFUSED(Gatherb,
              (const LocalTensor<T>&, const LocalTensor<T>&, const LocalTensor<uint32_t>&, uint8_t,
               const GatherRepeatParams&),
              "use Gather, with an offset for each element")

#define HAJAX_SHIFT(Name, advice)                                                                                      \
  HAJAX_REFUSED(Name,                                                                                                  \
                (const LocalTensor<T>&, const LocalTensor<T>&, const T&, uint64_t, int64_t, const UnaryRepeatParams&), \
                advice)                                                                                                \
  HAJAX_REFUSED(                                                                                                       \
      Name,                                                                                                            \
      (const LocalTensor<T>&, const LocalTensor<T>&, const T&, const uint64_t[], int64_t, const UnaryRepeatParams&),   \
      advice)                                                                                                          \
  HAJAX_REFUSED(Name, (const LocalTensor<T>&, const LocalTensor<T>&, const T&, int32_t), advice)
HAJAX_SHIFT(ShiftLeft, "multiply by a power of two (Muls)")
HAJAX_SHIFT(ShiftRight, "shift in the scalar unit, or multiply by a power of two as half or float")
#undef HAJAX_SHIFT

// Parameters of what is refused below, so that its message and not theirs is the first.
struct FixpipeParamsV220 {
  uint16_t nSize = 0;
  uint16_t mSize = 0;
  uint16_t srcStride = 0;
  uint32_t dstStride = 0;
  QuantMode_t quantPre = QuantMode_t::NoQuant;
  uint64_t deqScalar = 0;
  uint16_t ndNum = 1;
  uint16_t srcNdStride = 0;
  uint16_t dstNdStride = 0;
  bool reluEn = false;
  uint8_t unitFlag = 0;
  bool isChannelSplit = false;
};
enum class CO2Layout : uint8_t { NZ = 0, ROW_MAJOR, COLUMN_MAJOR };
struct FixpipeConfig {
  CO2Layout format = CO2Layout::ROW_MAJOR;
};
inline constexpr FixpipeConfig CFG_NZ = {CO2Layout::NZ};
inline constexpr FixpipeConfig CFG_ROW_MAJOR = {CO2Layout::ROW_MAJOR};

struct MrgSort4Info {
  uint16_t elementLengths[4] = {};
  bool ifExhaustedSuspension = false;
  uint16_t validBit = 0;
  uint8_t repeatTimes = 1;
};
template <typename T>
struct MrgSortSrcList {
  LocalTensor<T> src1, src2, src3, src4;
};

struct LoadData3DParamsV2Pro {};
HAJAX_REFUSED(LoadData, (const LocalTensor<T>&, const LocalTensor<T>&, const LoadData3DParamsV2Pro&),
              "use LoadData2DParams")

template <typename T, typename U, const FixpipeConfig& config = CFG_ROW_MAJOR, typename... Arguments>
void Fixpipe(const T&, const LocalTensor<U>&, const Arguments&...) {
  static_assert(hajax::ascendc::never<T, U>, "AscendC::Fixpipe: " HAJAX_LACKING
                                             ": results of the cube go by DataCopy from CO1 to UB, and on from there");
}
template <typename T, typename U, const FixpipeConfig& config = CFG_ROW_MAJOR, typename... Arguments>
void Fixpipe(const GlobalTensor<T>&, const LocalTensor<U>&, const Arguments&...) {
  static_assert(hajax::ascendc::never<T, U>, "AscendC::Fixpipe: " HAJAX_LACKING
                                             ": results of the cube go by DataCopy from CO1 to UB, and on from there");
}
HAJAX_LACKED(void, SetFixPipeConfig, "results of the cube go by DataCopy from CO1 to UB, and on from there")
HAJAX_LACKED(void, SetFixpipeNz2ndFlag, "results of the cube go by DataCopy from CO1 to UB, and on from there")
HAJAX_LACKED(void, SetFixpipePreQuantFlag, "give DataCopyEnhancedParams a deqScale")
template <typename T = int32_t, typename U = int8_t>
void MmadWithSparse(const LocalTensor<T>&, const LocalTensor<U>&, const LocalTensor<U>&, const MmadParams&) {
  static_assert(hajax::ascendc::never<T>,
                "AscendC::MmadWithSparse: " HAJAX_LACKING ": multiply the whole matrix by Mmad");
}
template <typename T = int8_t, typename U = uint8_t>
void LoadDataWithSparse(const LocalTensor<T>&, const LocalTensor<T>&, const LocalTensor<U>&, const LoadData2DParams&) {
  static_assert(hajax::ascendc::never<T>,
                "AscendC::LoadDataWithSparse: " HAJAX_LACKING ": load the whole matrix by LoadData");
}
template <typename T>
void Fill(GlobalTensor<T>&, uint64_t, T) {
  static_assert(hajax::ascendc::never<T>,
                "AscendC::Fill: of GM: " HAJAX_LACKING ": Duplicate a buffer in UB and copy it out");
}
HAJAX_LACKED(void, LoadDataWithStride, "use LoadData with LoadData2DParams")
HAJAX_LACKED(void, Sort32, "sort in the scalar unit or on the host")
HAJAX_LACKED(void, Sort, "sort in the scalar unit or on the host")
HAJAX_LACKED(void, Concat, "sort in the scalar unit or on the host")
HAJAX_LACKED(void, Extract, "sort in the scalar unit or on the host")
HAJAX_LACKED(void, MrgSort, "sort in the scalar unit or on the host")
HAJAX_LACKED(void, SetPadValue, "pad with Duplicate")
HAJAX_LACKED(void, CrossCoreSetFlag, "order cores by SyncAll with workspaces")
HAJAX_LACKED(void, CrossCoreWaitFlag, "order cores by SyncAll with workspaces")
HAJAX_LACKED(void, SetAtomicMax, "take the maximum in UB and write it from one core")
HAJAX_LACKED(void, SetAtomicMin, "take the minimum in UB and write it from one core")
HAJAX_LACKED(int64_t, GetSystemCycle, "hajax sim reports modelled cycles of every launch")
HAJAX_LACKED(void, DataSyncBarrier, "use PipeBarrier<PIPE_ALL>")
HAJAX_LACKED(void, SetHF32Mode, "the cube multiplies halves; cast the operands")
HAJAX_LACKED(void, SetHF32TransMode, "the cube multiplies halves; cast the operands")
HAJAX_LACKED(void, SetMMLayoutTransform, "results of Mmad lie in columns of fractals")
HAJAX_LACKED(void, SetStoreAtomicConfig, "use SetAtomicAdd")
HAJAX_LACKED(void, GetStoreAtomicConfig, "keep what SetAtomicAdd was given")
HAJAX_LACKED(void, SetLoadDataRepeat, "call LoadData in a loop")
HAJAX_LACKED(void, InitOutput, "Duplicate a buffer in UB and copy it out")
HAJAX_LACKED(int64_t, GetReduceRepeatSumSpr, "take the sum from dst of WholeReduceSum")
HAJAX_LACKED(int64_t, GetAccVal, "take the sum from dst of WholeReduceSum")
HAJAX_LACKED(int64_t, GetICachePreloadStatus, "leave it out: the emulator has no instruction cache")

// Of later chips only.
HAJAX_MISSING(void, Subs, "use Adds with the negated scalar")
HAJAX_MISSING(void, Divs, "use Muls with the reciprocal")
HAJAX_MISSING(void, Ands, "use And with a tensor that Duplicate has filled")
HAJAX_MISSING(void, Ors, "use Or with a tensor that Duplicate has filled")
HAJAX_MISSING(void, Truncate, "use Cast with CAST_TRUNC to integers and back")
HAJAX_MISSING(void, MulsCast, "use Muls, then Cast")
HAJAX_MISSING(void, Prelu, "use LeakyRelu, or Mul and Select")
HAJAX_MISSING(void, Mull, "use Mul")
HAJAX_MISSING(void, AbsSub, "use Sub, then Abs")
HAJAX_MISSING(void, ExpSub, "use Sub, then Exp")
HAJAX_MISSING(void, Interleave, "use Gather, or copies of blocks")
HAJAX_MISSING(void, DeInterleave, "use GatherMask with a fixed pattern")
HAJAX_MISSING(void, MmadMx, "use Mmad")
HAJAX_MISSING(void, SetMMRowMajor, "results of Mmad lie in columns of fractals")
HAJAX_MISSING(void, SetMMColumnMajor, "results of Mmad lie in columns of fractals")
HAJAX_MISSING(void, DataCopyL1ToUB, "use DataCopy")
HAJAX_MISSING(void, NdDmaDci, "use DataCopy with DataCopyParams")
HAJAX_MISSING(void, SetLoopModePara, "call DataCopy in a loop")
HAJAX_MISSING(void, ResetLoopModePara, "call DataCopy in a loop")
HAJAX_MISSING(void, WriteGmByPassDCache, "use GlobalTensor::SetValue and DataCacheCleanAndInvalid")
HAJAX_MISSING(int64_t, ReadGmByPassDCache, "use DataCacheCleanAndInvalid and GlobalTensor::GetValue")
HAJAX_MISSING(void, AtomicAdd, "use SetAtomicAdd and DataCopy")
HAJAX_MISSING(void, AtomicMax, "write from one core")
HAJAX_MISSING(void, AtomicMin, "write from one core")
HAJAX_MISSING(void, AtomicCas, "write from one core")
HAJAX_MISSING(void, AtomicExch, "write from one core")
HAJAX_MISSING(void, SetNextTaskStart, "leave it out")
HAJAX_MISSING(void, WaitPreTaskEnd, "leave it out")

HAJAX_NOT_EMULATED(void, SetFmatrix, "use LoadData with LoadData2DParams")
HAJAX_NOT_EMULATED(void, SetLoadDataBoundary, "use LoadData with LoadData2DParams")
HAJAX_NOT_EMULATED(void, SetLoadDataPaddingValue, "use LoadData with LoadData2DParams")
HAJAX_NOT_EMULATED(void, LoadUnzipIndex, "load the matrix as it is, by LoadData")
HAJAX_NOT_EMULATED(void, LoadDataUnzip, "load the matrix as it is, by LoadData")
HAJAX_NOT_EMULATED(void, LoadImageToLocal, "prepare the image on the host")
HAJAX_NOT_EMULATED(void, SetAippFunctions, "prepare the image on the host")
HAJAX_NOT_EMULATED(void, Conv2D, "turn the image into a matrix and use Mmad")
HAJAX_NOT_EMULATED(void, Gemm, "use LoadData and Mmad")
HAJAX_NOT_EMULATED(void, VectorPadding, "use Duplicate with a mask")
HAJAX_NOT_EMULATED(void, BilinearInterpolation, "use Gather, Mul and Add")
HAJAX_NOT_EMULATED(void, RpSort16, "sort in the scalar unit or on the host")
HAJAX_NOT_EMULATED(void, MrgSort4, "sort in the scalar unit or on the host")
HAJAX_NOT_EMULATED(void, ProposalConcat, "sort in the scalar unit or on the host")
HAJAX_NOT_EMULATED(void, ProposalExtract, "sort in the scalar unit or on the host")
HAJAX_NOT_EMULATED(void, IBSet, "order cores by SyncAll, or split the kernel in two launches")
HAJAX_NOT_EMULATED(void, IBWait, "order cores by SyncAll, or split the kernel in two launches")
HAJAX_NOT_EMULATED(void, InitDetermineComputeWorkspace, "order cores by SyncAll, or split the kernel in two launches")
HAJAX_NOT_EMULATED(void, WaitPreBlock, "order cores by SyncAll, or split the kernel in two launches")
HAJAX_NOT_EMULATED(void, NotifyNextBlock, "order cores by SyncAll, or split the kernel in two launches")
HAJAX_NOT_EMULATED(void, DumpTensor, "print elements by AscendC::printf")
HAJAX_NOT_EMULATED(void, DumpAccChkPoint, "print elements by AscendC::printf")
HAJAX_NOT_EMULATED(void, DataCachePreload, "leave it out: the emulator has no data cache")
HAJAX_NOT_EMULATED(void, ICachePreLoad, "leave it out: the emulator has no instruction cache")
HAJAX_NOT_EMULATED(void, CheckLocalMemoryIA, "leave it out: the emulator checks every access")
HAJAX_NOT_EMULATED(bool, PopStackBuffer, "use a TBuf")
HAJAX_NOT_EMULATED(int64_t, GetProgramCounter, "leave it out")
HAJAX_NOT_EMULATED(void, GetArchVersion, "compare __NPU_ARCH__")

}  // namespace AscendC

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_MISSING_H_
