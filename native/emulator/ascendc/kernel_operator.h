// What Ascend C kernels include: the API of the chip that __NPU_ARCH__ names, on emulated instructions. A call that the
// chip or the emulator lacks does not compile; its message says what to do instead.
#ifndef HAJAX_NATIVE_EMULATOR_ASCENDC_KERNEL_OPERATOR_H_
#define HAJAX_NATIVE_EMULATOR_ASCENDC_KERNEL_OPERATOR_H_

#include "native/emulator/ascendc/common/buffer.h"
#include "native/emulator/ascendc/common/cast.h"
#include "native/emulator/ascendc/common/compare.h"
#include "native/emulator/ascendc/common/copy.h"
#include "native/emulator/ascendc/common/cube.h"
#include "native/emulator/ascendc/common/duplicate.h"
#include "native/emulator/ascendc/common/gather.h"
#include "native/emulator/ascendc/common/missing.h"
#include "native/emulator/ascendc/common/queue.h"
#include "native/emulator/ascendc/common/reduce_tensor.h"
#include "native/emulator/ascendc/common/scalar_math.h"
#include "native/emulator/ascendc/common/system.h"
#include "native/emulator/ascendc/common/tensor_operators.h"
#include "native/emulator/ascendc/common/transpose.h"
#include "native/emulator/ascendc/common/vector_multiply_add.h"
#include "native/emulator/ascendc/common/vector_scalar.h"
#include "native/emulator/ascendc/common/vector_unary.h"

#if __NPU_ARCH__ == 2002
#include "native/emulator/ascendc/m200/brcb.h"
#include "native/emulator/ascendc/m200/cast_scaled.h"
#include "native/emulator/ascendc/m200/compare.h"
#include "native/emulator/ascendc/m200/copy_cube.h"
#include "native/emulator/ascendc/m200/copy_slice.h"
#include "native/emulator/ascendc/m200/gather_mask.h"
#include "native/emulator/ascendc/m200/nd2nz.h"
#include "native/emulator/ascendc/m200/nz2nd.h"
#include "native/emulator/ascendc/m200/select.h"
#include "native/emulator/ascendc/m200/sync_all.h"
#include "native/emulator/ascendc/m200/vec_index.h"
#else
#include "native/emulator/ascendc/m300/missing.h"
#include "native/emulator/ascendc/m300/vec_index.h"
#endif

#endif  // HAJAX_NATIVE_EMULATOR_ASCENDC_KERNEL_OPERATOR_H_
