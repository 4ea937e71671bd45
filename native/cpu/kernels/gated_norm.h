// Rows of weight * x / sqrt(mean of squares + eps) * silu(gate), or * sigmoid(gate).
#ifndef HAJAX_NATIVE_CPU_KERNELS_GATED_NORM_H_
#define HAJAX_NATIVE_CPU_KERNELS_GATED_NORM_H_

#include "native/cpu/kernels/columns.h"
#include "native/cpu/layer.h"

namespace hajax::cpu {
namespace {

template <int W, int32_t kInput, int32_t kGate>
HJ_INLINE void gated_norm_rows(const hj_gated_norm& call, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const int64_t at = row * call.dim;
    F<W> squares[2] = {};
    float rest = 0.0f;
    int64_t c = 0;
    for (; c + 2 * W <= call.dim; c += 2 * W) {
      HJ_UNROLL
      for (int i = 0; i < 2; ++i) {
        const F<W> x = load_as<W>(kInput, call.input, at + c + i * W);
        squares[i] += x * x;
      }
    }
    for (; c < call.dim; ++c) {
      const float x = load_as<1>(kInput, call.input, at + c)[0];
      rest += x * x;
    }
    const float mean = (sum<W>(squares[0] + squares[1]) + rest) / static_cast<float>(call.dim);
    const float factor = 1.0f / __builtin_sqrtf(mean + call.eps);
    over_any_columns<W>(call.dim, [&](auto width, int64_t column) HJ_INLINE_LAMBDA {
      constexpr int V = decltype(width)::value;
      const F<V> x = load_as<V>(kInput, call.input, at + column);
      const F<V> gate = load_as<V>(kGate, call.gate, at + column);
      F<V> y = load<V>(call.weight + column) * (x * factor) * sigmoid<V>(gate);
      if (call.silu != 0) y = y * gate;
      store_as<V>(kGate, call.output, at + column, y);
    });
  }
}

template <int W>
void run_gated_norm(const hj_gated_norm& call, int64_t begin, int64_t end) {
  with_dtype(call.input_dtype, [&](auto input) HJ_INLINE_LAMBDA {
    with_dtype(call.gate_dtype, [&](auto gate) HJ_INLINE_LAMBDA {
      gated_norm_rows<W, decltype(input)::value, decltype(gate)::value>(call, begin, end);
    });
  });
}

}  // namespace
}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_KERNELS_GATED_NORM_H_
