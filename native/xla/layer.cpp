// The XLA FFI handlers of a layer's elementwise pieces: buffers to hajax_convolve and hajax_normalise_gated.
#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

#include "native/xla/checks.h"
#include "native/xla/pool.h"

namespace hajax::xla {
namespace {

constexpr int32_t kNoDtype = -1;

int32_t dtype_of(ffi::DataType type) {
  if (type == ffi::DataType::F32) return cpu::kDtype_float32;
  if (type == ffi::DataType::BF16) return cpu::kDtype_bfloat16;
  if (type == ffi::DataType::F16) return cpu::kDtype_float16;
  return kNoDtype;
}

bool same(Dims a, Dims b) { return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin()); }

template <class Buffer>
bool has_sizes(const Buffer& buffer, std::initializer_list<int64_t> sizes) {
  return same(buffer.dimensions(), Dims(sizes.begin(), sizes.size()));
}

ffi::Error convolution(ffi::ThreadPool pool, ffi::AnyBuffer input, ffi::AnyBuffer state, F32 weight, F32 bias,
                       S32 bounds, ffi::Result<ffi::AnyBuffer> state_out, ffi::RemainingRets outputs, int32_t isa,
                       int32_t workers, int32_t silu) {
  if (input.dimensions().size() != 3 || weight.dimensions().size() != 2 || bounds.dimensions().size() != 2) {
    return invalid("convolution: expected input [B, T, C], weight [K, C] and bounds [B, N + 1]");
  }
  hj_convolution call = {};
  call.batch = input.dimensions()[0];
  call.tokens = input.dimensions()[1];
  call.channels = input.dimensions()[2];
  call.taps = weight.dimensions()[0];
  call.sequences = bounds.dimensions()[1] - 1;
  const int64_t states = call.batch * call.sequences;
  if (!has_sizes(weight, {call.taps, call.channels}) || !has_sizes(bias, {call.channels}) ||
      !has_sizes(bounds, {call.batch, call.sequences + 1}) ||
      !has_sizes(state, {states, call.taps - 1, call.channels}) ||
      !has_sizes(*state_out, {states, call.taps - 1, call.channels}) || state.element_type() != input.element_type() ||
      state_out->element_type() != input.element_type()) {
    return invalid("convolution: expected weight, bias, bounds and states that fit the input");
  }
  std::vector<int64_t> sizes;
  std::vector<void*> pointers;
  for (size_t i = 0; i < outputs.size(); ++i) {
    auto output = outputs.get<ffi::AnyBuffer>(i);
    if (!output.has_value()) return output.error();
    const ffi::AnyBuffer buffer = **output;
    if (buffer.dimensions().size() != 3 || buffer.element_type() != input.element_type() ||
        !has_sizes(buffer, {call.batch, call.tokens, buffer.dimensions()[2]})) {
      return invalid("convolution: expected outputs [B, T, size] of the input's dtype");
    }
    sizes.push_back(buffer.dimensions()[2]);
    pointers.push_back(buffer.untyped_data());
  }
  call.isa = isa;
  call.dtype = dtype_of(input.element_type());
  call.workers = workers;
  call.silu = silu;
  call.input = input.untyped_data();
  call.state_in = state.untyped_data();
  call.weight = weight.typed_data();
  call.bias = bias.typed_data();
  call.bounds = bounds.typed_data();
  call.parts = static_cast<int64_t>(sizes.size());
  call.sizes = sizes.data();
  call.outputs = pointers.data();
  call.state_out = state_out->untyped_data();
  const hj_parallel parallel = {&pool, run_on_pool};
  return error_of(hajax_convolve(&call, &parallel));
}

ffi::Error gated_norm(ffi::ThreadPool pool, ffi::AnyBuffer input, ffi::AnyBuffer gate, F32 weight,
                      ffi::Result<ffi::AnyBuffer> output, int32_t isa, int32_t workers, int32_t silu, float eps) {
  const size_t rank = gate.dimensions().size();
  if (rank == 0 || !same(input.dimensions(), gate.dimensions()) || !same(output->dimensions(), gate.dimensions()) ||
      output->element_type() != gate.element_type() || !has_sizes(weight, {gate.dimensions()[rank - 1]})) {
    return invalid("gated norm: expected input, gate and output of one shape [..., D], and weight [D]");
  }
  hj_gated_norm call = {};
  call.dim = gate.dimensions()[rank - 1];
  call.rows = call.dim > 0 ? static_cast<int64_t>(gate.element_count()) / call.dim : 0;
  call.isa = isa;
  call.input_dtype = dtype_of(input.element_type());
  call.gate_dtype = dtype_of(gate.element_type());
  call.workers = workers;
  call.silu = silu;
  call.eps = eps;
  call.input = input.untyped_data();
  call.gate = gate.untyped_data();
  call.weight = weight.typed_data();
  call.output = output->untyped_data();
  const hj_parallel parallel = {&pool, run_on_pool};
  return error_of(hajax_normalise_gated(&call, &parallel));
}

XLA_FFI_DEFINE_HANDLER(kConvolution, convolution,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::ThreadPool>()
                           .Arg<ffi::AnyBuffer>()
                           .Arg<ffi::AnyBuffer>()
                           .Arg<F32>()
                           .Arg<F32>()
                           .Arg<S32>()
                           .Ret<ffi::AnyBuffer>()
                           .RemainingRets()
                           .Attr<int32_t>("isa")
                           .Attr<int32_t>("workers")
                           .Attr<int32_t>("silu"));

XLA_FFI_DEFINE_HANDLER(kGatedNorm, gated_norm,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::ThreadPool>()
                           .Arg<ffi::AnyBuffer>()
                           .Arg<ffi::AnyBuffer>()
                           .Arg<F32>()
                           .Ret<ffi::AnyBuffer>()
                           .Attr<int32_t>("isa")
                           .Attr<int32_t>("workers")
                           .Attr<int32_t>("silu")
                           .Attr<float>("eps"));

}  // namespace
}  // namespace hajax::xla

extern "C" {

void* hajax_xla_convolution(void* frame) { return hajax::xla::kConvolution(static_cast<XLA_FFI_CallFrame*>(frame)); }

void* hajax_xla_gated_norm(void* frame) { return hajax::xla::kGatedNorm(static_cast<XLA_FFI_CallFrame*>(frame)); }

}  // extern "C"
