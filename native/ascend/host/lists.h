// The numbered lists of hajax/abi that the host side reads.
#ifndef HAJAX_NATIVE_ASCEND_HOST_LISTS_H_
#define HAJAX_NATIVE_ASCEND_HOST_LISTS_H_

#include <stdint.h>

namespace hajax::ascend::host {

enum Backend : int32_t {
#define BACKEND(number, name, meaning) kBackend_##name = number,
#include "hajax/abi/backends.def"
#undef BACKEND
};

enum Decay : int32_t {
#define DECAY(number, name, meaning) kDecay_##name = number,
#include "hajax/abi/decays.def"
#undef DECAY
};

enum Dtype : int32_t {
#define DTYPE(number, name, bytes) kDtype_##name = number,
#include "hajax/abi/dtypes.def"
#undef DTYPE
};

enum Status : int32_t {
#define STATUS(number, name, meaning) kStatus_##name = number,
#include "hajax/abi/statuses.def"
#undef STATUS
};

enum Counter : int32_t {
#define COUNTER(number, name, unit, meaning) kCounter_##name = number,
#include "hajax/abi/counters.def"
#undef COUNTER
};

enum Space : int32_t {
#define SPACE(number, name, alignment, meaning) kSpace_##name = number,
#include "hajax/abi/spaces.def"
#undef SPACE
};

enum Pipe : int32_t {
#define PIPE(number, name, meaning) kPipe_##name = number,
#include "hajax/abi/pipes.def"
#undef PIPE
};

enum Tensor : int32_t {
#define TENSOR(number, name, bytes, meaning) kTensor_##name = number,
#include "hajax/abi/tensors.def"
#undef TENSOR
};

enum Opcode : int32_t {
#define OPCODE(number, name, pipe, meaning) kOp_##name = number,
#include "hajax/abi/opcodes.def"
#undef OPCODE
};

}  // namespace hajax::ascend::host

#endif  // HAJAX_NATIVE_ASCEND_HOST_LISTS_H_
