#include "native/cpu/backward_layout.h"

#include <algorithm>

#include "native/cpu/lists.h"

namespace hajax::cpu {
namespace {

constexpr int64_t kLineFloats = kCacheLine / static_cast<int64_t>(sizeof(float));

int64_t up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// A row pitch with room for whole panels and an odd number of cache lines, so that rows do not evict one another.
int64_t wide(int64_t columns, int64_t panel) {
  const int64_t lines = up(columns, std::max(panel, kLineFloats)) / kLineFloats;
  return (lines | 1) * kLineFloats;
}

}  // namespace

BackwardLayout backward_layout_of(const hj_cpu_plan& plan, int64_t tokens, Layout* forward) {
  const int64_t rows = plan.chunk + kRowSlack;
  const int64_t dim = plan.key_dim;
  const bool by_channel = plan.header.decay == kDecay_per_channel;
  int64_t next = kWorkFloats;
  const auto take = [&next](int64_t floats) {
    const int64_t at = next;
    next += up(floats, kLineFloats);
    return at;
  };
  Layout f = {};
  f.pitch = up(rows, std::max<int64_t>(plan.panel, kLineFloats));
  for (int64_t* part : {&f.key, &f.query}) *part = take(rows * dim);
  f.key_t = take(dim * f.pitch);
  for (int64_t* part : {&f.kk, &f.qk, &f.lower, &f.mix}) *part = take(rows * f.pitch);
  for (int64_t* part :
       {&f.segment, &f.log_decay, &f.write, &f.erase, &f.from_start, &f.to_end, &f.key_factor, &f.query_factor}) {
    *part = take(f.pitch);
  }
  f.kept = take(dim);
  for (int64_t* part : {&f.key_in, &f.query_in, &f.channel_decay}) *part = take(by_channel ? rows * dim : 0);
  f.block_sums = take(by_channel ? plan.chunk / kBlock * 2 * dim : 0);
  f.block_rows = take(by_channel ? kBlock * dim : 0);

  BackwardLayout at = {};
  at.wide_value = wide(plan.value_dim, plan.panel);
  at.wide_key = wide(dim, plan.panel);
  at.state_floats = dim * at.wide_value;
  for (int64_t* part : {&at.values, &at.d_output, &at.update, &at.known, &at.d_update, &at.d_known}) {
    *part = take(rows * at.wide_value);
  }
  at.update_t = take(plan.value_dim * f.pitch);
  for (int64_t* part : {&at.ratio, &at.d_mix, &at.d_lower, &at.d_qk, &at.d_kk}) *part = take(rows * f.pitch);
  for (int64_t* part : {&at.state_t, &at.d_state_t}) *part = take(plan.value_dim * at.wide_key);
  at.d_states = take(plan.group * at.state_floats);
  for (int64_t* part : {&at.product, &at.d_query, &at.d_key}) *part = take(rows * at.wide_key);
  for (int64_t* part : {&at.to_here, &at.from_here, &at.between}) *part = take(f.pitch);
  for (int64_t* part : {&at.factor_in, &at.factor_out, &at.row_key, &at.row_query, &at.product_2, &at.d_decay}) {
    *part = take(by_channel ? rows * at.wide_key : 0);
  }
  const int64_t chunks = (tokens + plan.chunk - 1) / plan.chunk;
  at.segment = segment_of(chunks);
  const int64_t kept = chunks <= at.segment ? at.segment : at.segment + (chunks + at.segment - 1) / at.segment;
  at.states = take(kept * plan.group * at.state_floats);
  at.floats = next;
  f.floats = next;
  *forward = f;
  return at;
}

}  // namespace hajax::cpu
