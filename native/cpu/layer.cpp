#include <algorithm>
#include <cmath>
#include <cstring>

#include "native/cpu/call_check.h"
#include "native/cpu/isa.h"
#include "native/cpu/layer_calls.h"
#include "native/cpu/subnormals.h"

namespace hajax::cpu {
namespace {

constexpr int64_t kTileTokens = 64;
constexpr int64_t kTileChannels = 512;        // rows under a tile's taps stay in L1, each within a page or two
constexpr int64_t kItemElements = 1 << 15;    // of a norm
constexpr int64_t kWorkerElements = 1 << 16;  // less is not worth waking another thread
constexpr uint32_t kFloat32Nan = 0x7fc00000;
constexpr uint16_t kBfloat16Nan = 0x7fc0;
constexpr uint16_t kFloat16Nan = 0x7e00;

int64_t pieces(int64_t n, int64_t size) { return (n + size - 1) / size; }

void share(const hj_parallel* parallel, int64_t items, int32_t workers, int64_t elements, hj_item item,
           void* argument) {
  const int64_t wanted = std::min<int64_t>({workers, items, pieces(elements, kWorkerElements)});
  if (parallel != nullptr && wanted > 1) {
    parallel->run(parallel->context, items, static_cast<int32_t>(wanted), item, argument);
  } else {
    for (int64_t i = 0; i < items; ++i) item(argument, i, 0);
  }
}

Failure check_choices(int32_t isa, int32_t workers) {
  if (!isa_runs(isa)) return bad_call("isa", "one that was built and that this CPU runs", std::to_string(isa));
  if (workers < 1) return bad_call("workers", "at least 1", std::to_string(workers));
  return {};
}

Failure check_dtype(const char* field, int32_t dtype) {
  if (dtype_bytes(dtype) > 0) return {};
  return bad_call(field, "a number of dtypes.def", std::to_string(dtype));
}

Failure check(const hj_convolution& call) {
  if (Failure f = check_choices(call.isa, call.workers); f.failed()) return f;
  if (Failure f = check_dtype("dtype", call.dtype); f.failed()) return f;
  if (call.batch < 0) return bad_call("batch", "0 or more", std::to_string(call.batch));
  if (call.tokens < 0 || call.tokens > INT32_MAX) {
    return bad_call("tokens", "0..2147483647", std::to_string(call.tokens));
  }
  if (call.sequences < 1 || call.sequences > INT32_MAX)
    return bad_call("sequences", "1..2147483647", std::to_string(call.sequences));
  if (call.channels < 0) return bad_call("channels", "0 or more", std::to_string(call.channels));
  if (call.taps < 1 || call.taps > kMostTaps) {
    return bad_call("taps", "1.." + std::to_string(kMostTaps), std::to_string(call.taps));
  }
  if (call.parts < 1 || call.sizes == nullptr || call.outputs == nullptr) {
    return bad_call("parts", "at least 1, with sizes and outputs", std::to_string(call.parts));
  }
  const int64_t bytes = dtype_bytes(call.dtype);
  const int64_t memory = call.taps - 1;
  for (const Failure& f : {
           check_buffer("input", call.input, {call.batch, call.tokens, call.channels, bytes}),
           check_buffer("state_in", call.state_in, {call.batch, call.sequences, memory, call.channels, bytes}),
           check_buffer("state_out", call.state_out, {call.batch, call.sequences, memory, call.channels, bytes}),
           check_buffer("weight", call.weight, {call.taps, call.channels, sizeof(float)}),
           check_buffer("bounds", call.bounds, {call.batch, call.sequences + 1, sizeof(int32_t)}),
       }) {
    if (f.failed()) return f;
  }
  int64_t channels = 0;
  for (int64_t i = 0; i < call.parts; ++i) {
    const int64_t size = call.sizes[i];
    if (size < 0 || size > call.channels - channels) break;
    channels += size;
    const std::string name = "outputs[" + std::to_string(i) + "]";
    if (Failure f = check_buffer(name, call.outputs[i], {call.batch, call.tokens, size, bytes}); f.failed()) return f;
    if (i + 1 == call.parts && channels == call.channels) return {};
  }
  return bad_call("sizes", "channels of the parts, " + std::to_string(call.channels) + " in all", "others");
}

bool bounds_are_right(const hj_convolution& call) {
  for (int64_t b = 0; b < call.batch; ++b) {
    int32_t lowest = 0;
    for (int64_t n = 0; n <= call.sequences; ++n) {
      const int32_t bound = call.bounds[b * (call.sequences + 1) + n];
      if (bound < lowest || bound > call.tokens) return false;
      lowest = bound;
    }
  }
  return true;
}

void fill_with_nan(int32_t dtype, void* to, int64_t elements) {
  if (dtype == kDtype_float32) {
    std::fill_n(static_cast<uint32_t*>(to), elements, kFloat32Nan);
  } else {
    std::fill_n(static_cast<uint16_t*>(to), elements, dtype == kDtype_bfloat16 ? kBfloat16Nan : kFloat16Nan);
  }
}

struct Convolution {
  const hj_convolution& call;
  const Kernels* kernels;
  int64_t blocks;  // of channels, over all parts
  int64_t spans;   // of tokens, in a row
};

// Items go through the channel blocks of a span of tokens before the next span.
void convolve_item(void* argument, int64_t item, int32_t) {
  const Convolution& job = *static_cast<const Convolution*>(argument);
  const hj_convolution& call = job.call;
  int64_t block = item % job.blocks;
  const int64_t span = item / job.blocks;
  ConvolutionTile tile = {};
  tile.row = span / job.spans;
  tile.begin = span % job.spans * kTileTokens;
  tile.end = std::min(tile.begin + kTileTokens, call.tokens);
  int64_t part = 0;
  for (; block >= pieces(call.sizes[part], kTileChannels); ++part) {
    block -= pieces(call.sizes[part], kTileChannels);
    tile.channel += call.sizes[part];
  }
  tile.pitch = call.sizes[part];
  tile.column = block * kTileChannels;
  tile.channel += tile.column;
  tile.channels = std::min(kTileChannels, tile.pitch - tile.column);
  tile.output = call.outputs[part];
  tile.element_bytes = dtype_bytes(call.dtype);
  const SubnormalsAreZero mode;
  job.kernels->convolution(call, tile);
}

void keep_last_inputs(const hj_convolution& call) {
  const int64_t memory = call.taps - 1;
  const int64_t bytes = call.channels * dtype_bytes(call.dtype);
  const char* input = static_cast<const char*>(call.input);
  const char* before = static_cast<const char*>(call.state_in);
  char* to = static_cast<char*>(call.state_out);
  if (bytes == 0) return;
  for (int64_t b = 0; b < call.batch; ++b) {
    const int32_t* bounds = call.bounds + b * (call.sequences + 1);
    for (int64_t n = 0; n < call.sequences; ++n) {
      const int64_t state = (b * call.sequences + n) * memory;
      for (int64_t j = 0; j < memory; ++j) {
        const int64_t position = bounds[n + 1] - bounds[n] - memory + j;
        const char* from = position < 0 ? before + (state + memory + position) * bytes
                                        : input + (b * call.tokens + bounds[n] + position) * bytes;
        std::memcpy(to + (state + j) * bytes, from, static_cast<size_t>(bytes));
      }
    }
  }
}

struct GatedNorm {
  const hj_gated_norm& call;
  const Kernels* kernels;
  int64_t rows;  // of an item
};

void norm_item(void* argument, int64_t item, int32_t) {
  const GatedNorm& job = *static_cast<const GatedNorm*>(argument);
  const SubnormalsAreZero mode;
  job.kernels->gated_norm(job.call, item * job.rows, std::min((item + 1) * job.rows, job.call.rows));
}

}  // namespace

Failure convolve(const hj_convolution* given, const hj_parallel* parallel) {
  if (given == nullptr) return bad_call("call", "a pointer", "null");
  const hj_convolution& call = *given;
  if (Failure f = check(call); f.failed()) return f;
  const int64_t rows = call.batch * call.tokens;
  if (!bounds_are_right(call)) {
    for (int64_t i = 0; i < call.parts; ++i) fill_with_nan(call.dtype, call.outputs[i], rows * call.sizes[i]);
    fill_with_nan(call.dtype, call.state_out, call.batch * call.sequences * (call.taps - 1) * call.channels);
    return {};
  }
  Convolution job = {call, built_kernels(call.isa), 0, pieces(call.tokens, kTileTokens)};
  for (int64_t i = 0; i < call.parts; ++i) job.blocks += pieces(call.sizes[i], kTileChannels);
  share(parallel, call.batch * job.spans * job.blocks, call.workers, rows * call.channels, convolve_item, &job);
  keep_last_inputs(call);
  return {};
}

Failure normalise_gated(const hj_gated_norm* given, const hj_parallel* parallel) {
  if (given == nullptr) return bad_call("call", "a pointer", "null");
  const hj_gated_norm& call = *given;
  if (Failure f = check_choices(call.isa, call.workers); f.failed()) return f;
  if (Failure f = check_dtype("input_dtype", call.input_dtype); f.failed()) return f;
  if (Failure f = check_dtype("gate_dtype", call.gate_dtype); f.failed()) return f;
  if (call.rows < 0) return bad_call("rows", "0 or more", std::to_string(call.rows));
  if (call.dim < 1) return bad_call("dim", "at least 1", std::to_string(call.dim));
  const int64_t gate_bytes = dtype_bytes(call.gate_dtype);
  for (const Failure& f : {
           check_buffer("input", call.input, {call.rows, call.dim, dtype_bytes(call.input_dtype)}),
           check_buffer("gate", call.gate, {call.rows, call.dim, gate_bytes}),
           check_buffer("weight", call.weight, {call.dim, sizeof(float)}),
           check_buffer("output", call.output, {call.rows, call.dim, gate_bytes}),
       }) {
    if (f.failed()) return f;
  }
  GatedNorm job = {call, built_kernels(call.isa), pieces(kItemElements, call.dim)};
  share(parallel, pieces(call.rows, job.rows), call.workers, call.rows * call.dim, norm_item, &job);
  return {};
}

}  // namespace hajax::cpu
