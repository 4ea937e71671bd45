#include "native/cpu/layout.h"

#include <algorithm>

#include "native/cpu/lists.h"

namespace hajax::cpu {
namespace {

constexpr int64_t kLineFloats = kCacheLine / static_cast<int64_t>(sizeof(float));
constexpr int64_t kTokenVectors = 3;  // k.S, q.S and u

int64_t up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// How many bf16 parts hold every element of the inputs exactly.
int64_t input_parts_of(const hj_cpu_plan& plan) {
  if (plan.input_dtype == kDtype_float32) return kStateParts;
  return plan.input_dtype == kDtype_bfloat16 ? 1 : 2;
}

}  // namespace

Layout layout_of(const hj_cpu_plan& plan, bool matrix) {
  const int64_t rows = (matrix ? up(plan.chunk, kMatrixStep) : plan.chunk) + kRowSlack;
  const int64_t dim = plan.key_dim;
  const int64_t panel = plan.panel;
  const int64_t panels = (plan.value_dim + panel - 1) / panel;
  const int64_t block_panels = (panels + plan.column_blocks - 1) / plan.column_blocks;
  int64_t next = kWorkFloats;
  const auto take = [&next](int64_t floats) {
    const int64_t at = next;
    next += up(floats, kLineFloats);
    return at;
  };
  Layout at = {};
  at.state_rows = matrix ? up(dim, kMatrixStep) : dim;
  if (matrix) {
    at.matrix_rows = up(plan.chunk, kMatrixStep);
    at.matrix_dim = up(dim, kMatrixStep);
    at.input_parts = input_parts_of(plan);
    at.output_parts = plan.output_dtype == kDtype_float32 ? kStateParts : kStateParts - 1;
  }
  at.pitch = up(rows, std::max(panel, kLineFloats));
  at.key = take(rows * dim);
  at.query = take(rows * dim);
  at.key_t = take(dim * at.pitch);
  const int64_t pair_floats = at.input_parts * at.matrix_rows * at.matrix_dim / 2;  // 0 without matrix tiles
  at.key_pairs = take(plan.bf16_dot != 0 && !matrix ? dim / 2 * at.pitch : pair_floats);
  at.kk = take(rows * at.pitch);
  at.qk = take(rows * at.pitch);
  at.lower = take(rows * at.pitch);
  at.mix = take(rows * at.pitch);
  at.segment = take(at.pitch);
  at.log_decay = take(at.pitch);
  at.write = take(at.pitch);
  at.erase = take(at.pitch);
  at.from_start = take(at.pitch);
  at.to_end = take(at.pitch);
  at.key_factor = take(at.pitch);
  at.query_factor = take(at.pitch);
  at.update = take(std::max(rows * panel, kTokenVectors * static_cast<int64_t>(plan.value_dim)));
  at.value_pitch = matrix ? panel : block_panels * panel;
  at.values = take(rows * at.value_pitch);
  at.outputs = take(rows * at.value_pitch);
  at.states = take(plan.group * block_panels * at.state_rows * panel);
  at.kept = take(at.state_rows);
  const bool by_channel = plan.header.decay == kDecay_per_channel;
  at.key_in = take(by_channel ? rows * dim : 0);
  at.query_in = take(by_channel ? rows * dim : 0);
  at.channel_decay = take(by_channel ? rows * dim : 0);
  at.block_sums = take(by_channel ? plan.chunk / kBlock * 2 * dim : 0);
  at.block_rows = take(by_channel ? kBlock * dim : 0);
  at.key_parts = take(pair_floats);
  at.query_parts = take(pair_floats);
  at.key_t_parts = take(pair_floats);
  at.lower_parts = take(kStateParts * at.matrix_rows * at.matrix_rows / 2);
  at.mix_parts = take(at.output_parts * at.matrix_rows * at.matrix_rows / 2);
  at.state_parts = take(kStateParts * at.matrix_dim / 2 * panel);
  at.update_parts = take(kStateParts * at.matrix_rows / 2 * panel);
  at.key_scale = take(at.matrix_rows);
  at.query_scale = take(at.matrix_rows);
  at.value_scale = take(at.matrix_rows);
  at.write_scale = take(at.matrix_rows);
  at.erase_scale = take(at.matrix_rows);
  at.pending = take(matrix ? 2 * plan.group : 0);
  at.floats = next;
  return at;
}

}  // namespace hajax::cpu
