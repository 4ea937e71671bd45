// Named numbers and enumerations of the API that kernels and parameter structs use.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_CONSTANTS_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_CONSTANTS_H_

#include "native/emulator/ascendc/common/macros.h"

namespace AscendC {

inline constexpr int32_t DEFAULT_BLK_NUM = 8;
inline constexpr int32_t DEFAULT_BLK_STRIDE = 1;
inline constexpr uint8_t DEFAULT_REPEAT_STRIDE = 8;
inline constexpr uint8_t HALF_DEFAULT_REPEAT_STRIDE = 4;
inline constexpr int32_t HALF_FACTOR = 2;
inline constexpr uint64_t FULL_MASK = ~uint64_t{0};
inline constexpr uint64_t MASK_PLACEHOLDER = 0;
inline constexpr uint64_t MASK_PLACEHOLDER_LIST[2] = {0, 0};
inline constexpr int32_t DEFAULT_C0_SIZE = 32;
inline constexpr int32_t DEFAULT_BLOCK_SIZE = 256;
inline constexpr int32_t MAX_REPEAT_TIMES = 255;
inline constexpr int32_t MIN_REPEAT_TIMES = 0;
inline constexpr int32_t ONE_BYTE_BIT_SIZE = 8;
inline constexpr int32_t BLOCK_CUBE = 16;
inline constexpr int32_t CUBE_MAX_SIZE = 256;
inline constexpr uint16_t ONE_BLK_SIZE = 32;
inline constexpr int32_t ONE_REPEAT_BYTE_SIZE = 256;
inline constexpr int32_t FULL_MASK_LEN = 128;
inline constexpr int32_t HALF_MASK_LEN = 64;
inline constexpr int32_t DEFAULT_REDUCE_DST_REP_STRIDE = 1;
inline constexpr uint8_t B64_BYTE_SIZE = 8;
inline constexpr uint8_t B32_BYTE_SIZE = 4;
inline constexpr uint8_t B16_BYTE_SIZE = 2;
inline constexpr uint8_t B8_BYTE_SIZE = 1;
inline constexpr uint8_t B32_DATA_NUM_PER_BLOCK = 8;
inline constexpr uint8_t B16_DATA_NUM_PER_BLOCK = 16;
inline constexpr int32_t B16_DATA_NUM_PER_REPEAT = 128;
inline constexpr int32_t B32_DATA_NUM_PER_REPEAT = 64;
inline constexpr uint32_t ONE_BLK_HALF_NUM = 16;
inline constexpr uint32_t ONE_BLK_FLOAT_NUM = 8;
inline constexpr uint16_t UINT12_MAX = 4095;
inline constexpr int32_t BYTE_PER_FRACTAL = 512;
inline constexpr uint8_t PAD_SIZE = 4;
inline constexpr uint8_t DEFAULT_DATA_COPY_NBURST = 1;
inline constexpr uint8_t DEFAULT_DATA_COPY_STRIDE = 0;
inline constexpr int32_t NCHW_CONV_ADDR_LIST_SIZE = 16;
inline constexpr int32_t VA_REG_ARRAY_LEN = 8;
inline constexpr int32_t K_MAX_SHAPE_DIM = 8;
inline constexpr int32_t QUE_MAX_EVENT = 8;
inline constexpr uint8_t VDEQ_TENSOR_SIZE = 16;
inline constexpr uint32_t TOTAL_L0A_SIZE = 64 * 1024;
inline constexpr uint32_t TOTAL_L0B_SIZE = 64 * 1024;
inline constexpr uint32_t TOTAL_L1_SIZE = 1024 * 1024;
#if __NPU_ARCH__ == 2002
inline constexpr uint32_t TOTAL_UB_SIZE = 256 * 1024;
inline constexpr uint32_t TMP_UB_SIZE = 8 * 1024;
inline constexpr uint32_t TMP_UB_OFFSET = TOTAL_UB_SIZE - TMP_UB_SIZE;
inline constexpr uint32_t TOTAL_L0C_SIZE = 256 * 1024;
#else
inline constexpr uint32_t TOTAL_UB_SIZE = 248 * 1024;
inline constexpr uint32_t TOTAL_L0C_SIZE = 128 * 1024;
#endif
inline constexpr uint32_t QBUF_MAX_LEN = 64;

// Logical positions of tensors; the chip maps each to a memory.
enum class TPosition : uint8_t {
  GM,
  A1,
  A2,
  B1,
  B2,
  C1,
  C2,
  CO1,
  CO2,
  VECIN,
  VECOUT,
  VECCALC,
  LCM = VECCALC,
  SPM,
  SHM = SPM,
  TSCM,
  C2PIPE2GM,
  C2PIPE2LOCAL,
  MAX,
};
using QuePosition = TPosition;

enum class Hardware : uint8_t { GM, UB, L1, L0A, L0B, L0C, BIAS, FIXBUF, MAX };

enum class MaskMode : uint8_t { NORMAL = 0, COUNTER };

enum class RoundMode : uint8_t {
  CAST_NONE = 0,
  CAST_RINT,
  CAST_FLOOR,
  CAST_CEIL,
  CAST_ROUND,
  CAST_TRUNC,
  CAST_ODD,
  UNKNOWN = 0xFF,
};

enum class CMPMODE : uint8_t { LT = 0, GT, EQ, LE, GE, NE };

enum class SELMODE : uint8_t { VSEL_CMPMASK_SPR = 0, VSEL_TENSOR_SCALAR_MODE, VSEL_TENSOR_TENSOR_MODE };

enum class DeqScale : uint8_t { DEQ_NONE = 0, DEQ, VDEQ, DEQ8, VDEQ8, DEQ16, VDEQ16 };

enum class BlockMode : uint8_t {
  BLOCK_MODE_NORMAL = 0,
  BLOCK_MODE_MATRIX,
  BLOCK_MODE_VECTOR,
  BLOCK_MODE_SMALL_CHANNEL,
  BLOCK_MODE_DEPTHWISE,
};

enum class ReduceType { NONE = -1, SUM = 0, MAX, MIN };
enum class ReduceMode : uint8_t { REDUCE_MAX = 0, REDUCE_MIN, REDUCE_SUM };
enum class ReduceOrder : uint8_t { ORDER_VALUE_INDEX = 0, ORDER_INDEX_VALUE, ORDER_ONLY_VALUE, ORDER_ONLY_INDEX };

enum class DataFormat : uint8_t { ND = 0, NZ, NCHW, NC1HWC0, NHWC, NCDHW, NDC1HWC0, FRACTAL_Z_3D };

enum class CacheLine : uint64_t { SINGLE_CACHE_LINE = 0, ENTIRE_DATA_CACHE };
enum class DcciDst : uint64_t { CACHELINE_ALL = 0, CACHELINE_UB, CACHELINE_OUT, CACHELINE_ATOMIC };

enum class MemDsbT : uint8_t { ALL = 0, DDR, UB, SEQ };
enum class HF32Mode { ENABLE, DISABLE };
enum class HF32TransMode { NEAREST_ZERO, NEAREST_EVEN };
enum class FmatrixMode : uint8_t { FMATRIX_LEFT = 0, FMATRIX_RIGHT = 1 };

enum class TransposeType : uint8_t {
  TRANSPOSE_TYPE_NONE,
  TRANSPOSE_NZ2ND_0213,
  TRANSPOSE_NZ2NZ_0213,
  TRANSPOSE_NZ2NZ_012_WITH_N,
  TRANSPOSE_NZ2ND_012_WITH_N,
  TRANSPOSE_NZ2ND_012_WITHOUT_N,
  TRANSPOSE_NZ2NZ_012_WITHOUT_N,
  TRANSPOSE_ND2ND_ONLY,
  TRANSPOSE_ND_UB_GM,
  TRANSPOSE_GRAD_ND_UB_GM,
  TRANSPOSE_ND2ND_B16,
  TRANSPOSE_NCHW2NHWC,
  TRANSPOSE_NHWC2NCHW,
};

enum class GatherMaskMode : uint8_t { VERSION_V1 = 0, VERSION_V2 = 1 };
inline constexpr GatherMaskMode defaultGatherMaskMode = GatherMaskMode::VERSION_V1;

using TBufHandle = uint8_t*;
using TEventID = int8_t;
using TTagType = int32_t;
inline constexpr TEventID INVALID_TEVENTID = -1;

struct int4b_t;  // named by code for other chips; nothing here computes with it

}  // namespace AscendC

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_COMMON_CONSTANTS_H_
