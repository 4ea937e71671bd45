// The elementwise pieces of a delta-rule layer around the operator: short convolution and gated norm.
#ifndef HAJAX_NATIVE_CPU_LAYER_H_
#define HAJAX_NATIVE_CPU_LAYER_H_

#include <stdint.h>

#include "hajax/abi/hajax.h"

namespace hajax::cpu {

constexpr int64_t kMostTaps = 32;

// What one item of a convolution makes: tokens [begin, end) of a row, `channels` channels of one output.
struct ConvolutionTile {
  int64_t row;
  int64_t begin;
  int64_t end;
  int64_t channel;  // the first, among all of the input's
  int64_t channels;
  void* output;
  int64_t pitch;   // channels of that output
  int64_t column;  // the first of them
  int64_t element_bytes;
};

}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_LAYER_H_
