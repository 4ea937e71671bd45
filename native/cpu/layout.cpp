#include "native/cpu/layout.h"

#include <algorithm>

#include "native/cpu/lists.h"

namespace hajax::cpu {
namespace {

constexpr int64_t kLineFloats = kCacheLine / static_cast<int64_t>(sizeof(float));
constexpr int64_t kTokenVectors = 3;  // k.S, q.S and u

int64_t up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

}  // namespace

Layout layout_of(const hj_cpu_plan& plan) {
  const int64_t rows = plan.chunk + kRowSlack;
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
  Layout at;
  at.pitch = up(rows, std::max(panel, kLineFloats));
  at.key = take(rows * dim);
  at.query = take(rows * dim);
  at.key_t = take(dim * at.pitch);
  at.key_pairs = take(plan.bf16_dot != 0 ? dim / 2 * at.pitch : 0);
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
  at.value_pitch = block_panels * panel;
  at.values = take(rows * at.value_pitch);
  at.outputs = take(rows * at.value_pitch);
  at.states = take(plan.group * block_panels * dim * panel);
  at.kept = take(dim);
  const bool by_channel = plan.header.decay == kDecay_per_channel;
  at.key_in = take(by_channel ? rows * dim : 0);
  at.query_in = take(by_channel ? rows * dim : 0);
  at.channel_decay = take(by_channel ? rows * dim : 0);
  at.block_sums = take(by_channel ? plan.chunk / kBlock * 2 * dim : 0);
  at.block_rows = take(by_channel ? kBlock * dim : 0);
  at.floats = next;
  return at;
}

}  // namespace hajax::cpu
