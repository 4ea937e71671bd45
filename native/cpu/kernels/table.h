// What an ISA object exports: every kernel for its registers.
#ifndef HAJAX_NATIVE_CPU_KERNELS_TABLE_H_
#define HAJAX_NATIVE_CPU_KERNELS_TABLE_H_

#include "native/cpu/kernels/backward.h"
#include "native/cpu/kernels/convolution.h"
#include "native/cpu/kernels/gated_norm.h"
#include "native/cpu/kernels/task.h"

namespace hajax::cpu {
namespace {

template <class I>
constexpr Kernels kernels_of(int32_t isa) {
  return {
      isa, I::kPanel, I::Tiles::kThere, run_task<I>, run_backward_task<I>, run_convolution<I::W>, run_gated_norm<I::W>};
}

}  // namespace
}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_KERNELS_TABLE_H_
