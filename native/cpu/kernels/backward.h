// A task of a gradient: one sequence, one key head, `group` of its value heads. Forwards it computes the states at the
// chunks' starts, backwards the gradients of a chunk from its state and the gradient of the next one.
#ifndef HAJAX_NATIVE_CPU_KERNELS_BACKWARD_H_
#define HAJAX_NATIVE_CPU_KERNELS_BACKWARD_H_

#include "native/cpu/kernels/backward_channel.h"
#include "native/cpu/kernels/task.h"

namespace hajax::cpu {
namespace {

// A state of [Dk, Dv] in scratch, by chunk of a segment or, behind those, by segment; and its gradient.
HJ_INLINE Matrix state_at(const Parts& m, int64_t slot, int64_t head) {
  const int64_t number = slot * m.b.forward.plan.group + head;
  return m.by_value(m.b.at.states + number * m.b.at.state_floats);
}

HJ_INLINE Matrix d_state_of(const Parts& m, int64_t head) {
  return m.by_value(m.b.at.d_states + head * m.b.at.state_floats);
}

// Columns past the right edge, up to a whole panel, become zero.
template <class I>
HJ_INLINE void load_state(const Problem& p, const float* from, const Matrix& to) {
  const int64_t columns = p.plan.value_dim;
  for (int64_t d = 0; d < p.plan.key_dim; ++d) {
    __builtin_memcpy(to.row(d), from + d * columns, static_cast<uint64_t>(columns) * sizeof(float));
    for (int64_t c = columns; c < round_up(columns, I::kPanel); ++c) to.row(d)[c] = 0;
  }
}

HJ_INLINE void store_state(const Problem& p, const Matrix& from, float* to) {
  const int64_t columns = p.plan.value_dim;
  for (int64_t d = 0; d < p.plan.key_dim; ++d) {
    __builtin_memcpy(to + d * columns, from.row(d), static_cast<uint64_t>(columns) * sizeof(float));
  }
}

// As prepare_head, with the scores' decays apart from the strengths.
template <class I>
HJ_INLINE PanelRows prepare_backward_head(const Parts& m, const Span& s, int64_t value_head, Work* work) {
  const Problem& p = m.b.forward;
  const Layout& at = p.layout;
  load_strengths(p, s, value_head, m.scratch);
  if (p.decay == kDecay_scalar) {
    decay_factors<I>(p, s, value_head, m.scratch);
    decayed_scores<I, true>(m, s.rows);
    return {m.scratch + at.key, m.scratch + at.query};
  }
  unit_factors(p, s.rows, m.scratch);
  if (p.decay == kDecay_per_channel) {
    decay_channels<I>(p, s, value_head, m.scratch, work);
    decayed_scores<I, false>(m, s.rows);
    return {m.scratch + at.key_in, m.scratch + at.query_in};
  }
  keep_rows(p, 1.0f, m.scratch);
  decayed_scores<I, false>(m, s.rows);
  return {m.scratch + at.key, m.scratch + at.query};
}

// What the state carried over the chunk says of the decay of all its tokens: in all, and by channel where asked.
HJ_INLINE double carried(const Parts& m, const Matrix& state, const Matrix& d_state, float* by_channel) {
  const Problem& p = m.b.forward;
  double all = 0;
  for (int64_t d = 0; d < p.plan.key_dim; ++d) {
    const float said = m.scratch[p.layout.kept + d] * dot_rows(state.row(d), d_state.row(d), p.plan.value_dim);
    if (by_channel != nullptr) by_channel[d] = said;
    all += static_cast<double>(said);
  }
  return all;
}

// All gradients of one head in a chunk. d_state holds the gradient of the state behind it, then of that before it.
template <class I>
void head_gradients(const Parts& m, const Span& s, int64_t value_head, bool first_head, const Matrix& state,
                    const Matrix& d_state, Work* work) {
  const Problem& p = m.b.forward;
  const int64_t dk = p.plan.key_dim, dv = p.plan.value_dim, rows = s.rows;
  const PanelRows of = prepare_backward_head<I>(m, s, value_head, work);
  const Matrix key = {const_cast<float*>(of.key), dk}, query = {const_cast<float*>(of.query), dk};
  stage_rows<I>(p, s, value_head, p.plan.input_dtype, p.call.value, m.by_value(m.b.at.values));
  stage_rows<I>(p, s, value_head, p.plan.output_dtype, m.b.call.output_cotangent, m.by_value(m.b.at.d_output));
  solve_updates<I>(m, key, state, rows);
  solve_d_updates<I>(m, d_state, rows);
  strength_gradients<I>(m, s, value_head);
  score_gradients<I>(m, rows);
  transpose<I>(state, dk, dv, m.by_key(m.b.at.state_t));
  transpose<I>(d_state, dk, dv, m.by_key(m.b.at.d_state_t));
  if (p.decay == kDecay_scalar) {
    const int64_t columns = round_up(dv, I::kPanel);
    for (int64_t r = 0; r < rows; ++r) {
      scale_row<I>(m.by_value(m.b.at.d_output).row(r), m.scratch[p.layout.from_start + r], columns);
      if (p.delta) scale_row<I>(m.by_value(m.b.at.d_known).row(r), m.scratch[p.layout.from_start + r], columns);
      scale_row<I>(m.by_value(m.b.at.update).row(r), m.scratch[p.layout.to_end + r], columns);
    }
    undecayed_gradients<I, true>(m, rows, first_head);
    row_gradients<I>(m, rows, first_head);
    decay_gradient(m, s, value_head, carried(m, state, d_state, nullptr));
  } else if (p.decay == kDecay_none) {
    undecayed_gradients<I, false>(m, rows, first_head);
    row_gradients<I>(m, rows, first_head);
  } else {
    if (first_head) {
      clear_rows(m.by_key(m.b.at.d_query), 0, rows);
      clear_rows(m.by_key(m.b.at.d_key), 0, rows);
    }
    clear_rows(m.by_key(m.b.at.d_decay), 0, rows);
    channel_score_gradients<I>(m, s, value_head);
    channel_row_gradients<I>(m, rows);
    float* whole = m.vector(p.layout.block_rows);
    carried(m, state, d_state, whole);
    store_channel_decays<I>(m, s, value_head, whole);
  }
  retreat_state<I>(m, key, query, rows, d_state);
  // Products with a state, products of two tokens' rows; halves of those are never formed.
  work->macs += rows * dk * dv * (p.delta ? 7 : 4) + rows * rows / 2 * (p.delta ? 5 : 2) * dv;
}

// The states of one chunk to the next one's.
template <class I>
void advance_states(const Parts& m, const Span& s, int64_t first_head, int64_t from, int64_t to, Work* work) {
  const Problem& p = m.b.forward;
  prepare_chunk<I>(p, s, m.scratch, work);
  for (int64_t h = 0; h < p.plan.group; ++h) {
    const PanelRows of = prepare_backward_head<I>(m, s, first_head + h, work);
    stage_rows<I>(p, s, first_head + h, p.plan.input_dtype, p.call.value, m.by_value(m.b.at.values));
    solve_updates<I>(m, {const_cast<float*>(of.key), p.plan.key_dim}, state_at(m, from, h), s.rows);
    advance_state<I>(m, s.rows, state_at(m, from, h), state_at(m, to, h));
  }
  work->macs += s.rows * p.plan.group * p.plan.key_dim * p.plan.value_dim * (p.delta ? 2 : 1);
}

HJ_INLINE void copy_states(const Parts& m, int64_t from, int64_t to) {
  const uint64_t floats = static_cast<uint64_t>(m.b.forward.plan.group * m.b.at.state_floats);
  if (from != to) __builtin_memcpy(state_at(m, to, 0).at, state_at(m, from, 0).at, floats * sizeof(float));
}

template <class I>
void backward_chunks(const BackwardProblem& b, const Task& t, int64_t subgroup, float* scratch, Work* work) {
  const Problem& p = b.forward;
  const Parts m = {b, scratch};
  const int64_t chunk = p.plan.chunk;
  const int64_t chunks = (t.end - t.begin + chunk - 1) / chunk;
  const int64_t segment = b.at.segment, segments = (chunks + segment - 1) / segment;
  const auto span_of = [&](int64_t number) HJ_INLINE_LAMBDA {
    const int64_t first = t.begin + number * chunk;
    return Span{t.batch, first, t.end - first < chunk ? t.end - first : chunk, t.key_head};
  };
  for (int64_t h = 0; h < p.plan.group; ++h) {
    load_state<I>(p, p.call.state_in + state_offset(p, t, h), state_at(m, 0, h));
    load_state<I>(p, b.call.state_cotangent + state_offset(p, t, h), d_state_of(m, h));
  }
  // Slots below `segment` hold the states of a segment's chunks, those behind the states at the segments' starts.
  for (int64_t c = 0; c < (segments - 1) * segment; ++c) {
    if (c % segment == 0) copy_states(m, c == 0 ? 0 : 1, segment + c / segment);
    advance_states<I>(m, span_of(c), t.first_value_head, c % segment == 0 ? segment + c / segment : 1, 1, work);
  }
  for (int64_t number = segments - 1; number >= 0; --number) {
    const int64_t first = number * segment;
    const int64_t end = first + segment < chunks ? first + segment : chunks;
    if (segments > 1) copy_states(m, number == segments - 1 ? 1 : segment + number, 0);
    for (int64_t c = first; c + 1 < end; ++c) {
      advance_states<I>(m, span_of(c), t.first_value_head, c - first, c - first + 1, work);
    }
    for (int64_t c = end - 1; c >= first; --c) {
      const Span s = span_of(c);
      prepare_chunk<I>(p, s, scratch, work);
      for (int64_t h = 0; h < p.plan.group; ++h) {
        head_gradients<I>(m, s, t.first_value_head + h, h == 0, state_at(m, c - first, h), d_state_of(m, h), work);
      }
      if (p.decay != kDecay_per_channel) shared_gradients<I>(m, s.rows);
      store_key_gradients<I>(m, s, subgroup);
      ++work->chunks;
    }
  }
  for (int64_t h = 0; h < p.plan.group; ++h) {
    store_state(p, d_state_of(m, h), b.call.state_gradient + state_offset(p, t, h));
  }
}

HJ_INLINE void zero(void* base, int64_t index, int64_t count, int64_t bytes) {
  __builtin_memset(static_cast<char*>(base) + index * bytes, 0, static_cast<uint64_t>(count * bytes));
}

// Zero gradients of tokens [begin, end), which no sequence owns.
HJ_INLINE void zero_gradients(const BackwardProblem& b, const Task& t, int64_t subgroup, int64_t begin, int64_t end) {
  const Problem& p = b.forward;
  const int64_t bytes = p.plan.input_dtype == kDtype_float32 ? kDtypeBytes_float32 : kDtypeBytes_float16;
  const int64_t key_bytes = p.subgroups == 1 ? bytes : static_cast<int64_t>(kDtypeBytes_float32);
  const int64_t strengths = p.two_strengths ? kStrengths : 1;
  const int64_t channels = p.decay == kDecay_per_channel ? p.plan.key_dim : 1;
  for (int64_t token = begin; token < end; ++token) {
    const int64_t row = t.batch * p.call.tokens + token;
    const int64_t key = ((row * p.plan.key_heads + t.key_head) * p.subgroups + subgroup) * p.plan.key_dim;
    const int64_t head = row * p.plan.value_heads + t.first_value_head;
    zero(b.call.query_gradient, key, p.plan.key_dim, key_bytes);
    zero(b.call.key_gradient, key, p.plan.key_dim, key_bytes);
    zero(b.call.value_gradient, head * p.plan.value_dim, p.plan.group * p.plan.value_dim, bytes);
    zero(b.call.beta_gradient, head * strengths, p.plan.group * strengths, kDtypeBytes_float32);
    if (p.decay == kDecay_none) continue;
    zero(b.call.log_decay_gradient, head * channels, p.plan.group * channels, kDtypeBytes_float32);
  }
}

template <class I>
void run_backward_task(const BackwardProblem& b, int64_t item, float* scratch, Work* work) {
  const Problem& p = b.forward;
  const Task t = task_of<I>(p, item);
  const int64_t subgroup = (t.first_value_head / p.plan.group) % p.subgroups;
  if (t.sequence == 0) zero_gradients(b, t, subgroup, 0, t.begin);
  if (t.sequence == p.call.sequences - 1) zero_gradients(b, t, subgroup, t.end, p.call.tokens);
  if (t.begin == t.end) {
    const int64_t floats = static_cast<int64_t>(p.plan.group) * p.plan.key_dim * p.plan.value_dim;
    const int64_t at = state_offset(p, t, 0);
    __builtin_memcpy(b.call.state_gradient + at, b.call.state_cotangent + at,
                     static_cast<uint64_t>(floats) * sizeof(float));
  } else {
    backward_chunks<I>(b, t, subgroup, scratch, work);
  }
  ++work->tasks;
}

}  // namespace
}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_KERNELS_BACKWARD_H_
