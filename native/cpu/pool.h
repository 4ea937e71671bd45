// Threads of this library's own, for callers that bring none.
#ifndef HAJAX_NATIVE_CPU_POOL_H_
#define HAJAX_NATIVE_CPU_POOL_H_

#include <stdint.h>

#include "hajax/abi/hajax.h"

namespace hajax::cpu {

constexpr int32_t kMostThreads = 512;

// Work for up to `threads` threads, the caller among them. What is no count from 1 to kMostThreads becomes the nearest.
const hj_parallel* parallel_of(int32_t threads);

}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_POOL_H_
