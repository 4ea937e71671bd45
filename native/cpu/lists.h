// The numbered lists of hajax/abi as C++ enumerations.
#ifndef HAJAX_NATIVE_CPU_LISTS_H_
#define HAJAX_NATIVE_CPU_LISTS_H_

#include <stdint.h>

namespace hajax::cpu {

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

enum DtypeBytes : int32_t {
#define DTYPE(number, name, bytes) kDtypeBytes_##name = bytes,
#include "hajax/abi/dtypes.def"
#undef DTYPE
};

enum Isa : int32_t {
#define ISA(number, name, meaning) kIsa_##name = number,
#include "hajax/abi/isas.def"
#undef ISA
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

}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_LISTS_H_
