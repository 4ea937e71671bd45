// The short causal convolution of a tile of tokens x channels: each input row is read once and serves all taps from
// registers. A tap that reaches before its sequence reads that sequence's state, so the inner loop knows only rows.
#ifndef HAJAX_NATIVE_CPU_KERNELS_CONVOLUTION_H_
#define HAJAX_NATIVE_CPU_KERNELS_CONVOLUTION_H_

#include "native/cpu/kernels/columns.h"
#include "native/cpu/layer.h"

namespace hajax::cpu {
namespace {

constexpr int kTileTokens = 4;
constexpr int kUsualTaps = 4;  // of every published model: weights stay in registers

HJ_INLINE const char* row_at(const hj_convolution& call, const ConvolutionTile& tile, int64_t sequence,
                             int64_t position) {
  const int64_t memory = call.taps - 1;
  const int64_t first = call.bounds[tile.row * (call.sequences + 1) + sequence];
  const bool before = position < 0;
  const int64_t row = before ? (tile.row * call.sequences + sequence) * memory + memory + position
                             : tile.row * call.tokens + first + position;
  const char* base = static_cast<const char*>(before ? call.state_in : call.input);
  return base + (row * call.channels + tile.channel) * tile.element_bytes;
}

// kTokens outputs from the kTokens + taps - 1 input rows under them.
template <int W, int32_t kDtype, int kTokens, int kTaps>
HJ_INLINE void convolve_rows(const hj_convolution& call, const ConvolutionTile& tile, const char* const* rows,
                             int64_t token) {
  const int64_t taps = kTaps > 0 ? kTaps : call.taps;
  over_any_columns<W>(tile.channels, [&](auto width, int64_t c) HJ_INLINE_LAMBDA {
    constexpr int V = decltype(width)::value;
    const float* weight = call.weight + tile.channel + c;
    F<V> sum[kTokens];
    HJ_UNROLL
    for (int i = 0; i < kTokens; ++i) sum[i] = F<V>{};
    if constexpr (kTaps > 0) {
      F<V> x[kTokens + kTaps - 1];
      HJ_UNROLL
      for (int i = 0; i < kTokens + kTaps - 1; ++i) x[i] = load_as<V>(kDtype, rows[i], c);
      HJ_UNROLL
      for (int j = 0; j < kTaps; ++j) {
        const F<V> w = load<V>(weight + j * call.channels);
        HJ_UNROLL
        for (int i = 0; i < kTokens; ++i) sum[i] += w * x[i + j];
      }
    } else {
      for (int64_t j = 0; j < taps; ++j) {
        const F<V> w = load<V>(weight + j * call.channels);
        HJ_UNROLL
        for (int i = 0; i < kTokens; ++i) sum[i] += w * load_as<V>(kDtype, rows[i + j], c);
      }
    }
    const F<V> bias = call.bias != nullptr ? load<V>(call.bias + tile.channel + c) : F<V>{};
    HJ_UNROLL
    for (int i = 0; i < kTokens; ++i) {
      F<V> y = sum[i] + bias;
      if (call.silu != 0) y = y * sigmoid<V>(y);
      store_as<V>(kDtype, tile.output, (tile.row * call.tokens + token + i) * tile.pitch + tile.column + c, y);
    }
  });
}

template <int W, int32_t kDtype, int kTaps>
HJ_INLINE void convolve_tokens(const hj_convolution& call, const ConvolutionTile& tile, int64_t sequence, int64_t token,
                               int64_t end) {
  const char* rows[kTileTokens + kMostTaps - 1];
  const int64_t first = call.bounds[tile.row * (call.sequences + 1) + sequence];
  while (token < end) {
    const int64_t count = end - token < kTileTokens ? 1 : kTileTokens;
    for (int64_t i = 0; i < count + call.taps - 1; ++i) {
      rows[i] = row_at(call, tile, sequence, token - first - (call.taps - 1) + i);
    }
    if (count == kTileTokens) {
      convolve_rows<W, kDtype, kTileTokens, kTaps>(call, tile, rows, token);
    } else {
      convolve_rows<W, kDtype, 1, kTaps>(call, tile, rows, token);
    }
    token += count;
  }
}

HJ_INLINE void zero_tokens(const hj_convolution& call, const ConvolutionTile& tile, int64_t token, int64_t end) {
  for (; token < end; ++token) {
    const int64_t index = (tile.row * call.tokens + token) * tile.pitch + tile.column;
    __builtin_memset(static_cast<char*>(tile.output) + index * tile.element_bytes, 0,
                     static_cast<unsigned long>(tile.channels * tile.element_bytes));
  }
}

template <int W>
void run_convolution(const hj_convolution& call, const ConvolutionTile& tile) {
  const int32_t* bounds = call.bounds + tile.row * (call.sequences + 1);
  int64_t token = tile.begin;
  for (int64_t n = 0; n < call.sequences && token < tile.end; ++n) {
    const int64_t first = bounds[n] < tile.end ? bounds[n] : tile.end;
    const int64_t last = bounds[n + 1] < tile.end ? bounds[n + 1] : tile.end;
    if (token < first) {  // only before the first sequence
      zero_tokens(call, tile, token, first);
      token = first;
    }
    if (token >= last) continue;
    with_dtype(call.dtype, [&](auto dtype) HJ_INLINE_LAMBDA {
      constexpr int32_t kDtype = decltype(dtype)::value;
      if (call.taps == kUsualTaps) {
        convolve_tokens<W, kDtype, kUsualTaps>(call, tile, n, token, last);
      } else {
        convolve_tokens<W, kDtype, 0>(call, tile, n, token, last);
      }
    });
    token = last;
  }
  zero_tokens(call, tile, token, tile.end);
}

}  // namespace
}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_KERNELS_CONVOLUTION_H_
