// A task: one sequence, `group` value heads of one key head or all of those of some, one block of their columns, from
// the first token to the last.
#ifndef HAJAX_NATIVE_CPU_KERNELS_TASK_H_
#define HAJAX_NATIVE_CPU_KERNELS_TASK_H_

#include "native/cpu/kernels/channel.h"
#include "native/cpu/kernels/matrix_head.h"
#include "native/cpu/kernels/panel.h"
#include "native/cpu/kernels/token.h"
#include "native/cpu/kernels/weights.h"

namespace hajax::cpu {
namespace {

struct Task {
  int64_t batch;
  int64_t sequence;
  int64_t key_head;  // of the first value head
  int64_t first_value_head;
  int64_t first_column;
  int64_t columns;
  int64_t begin;  // tokens
  int64_t end;
};

HJ_INLINE int64_t key_head_of(const Problem& p, int64_t value_head) {
  return value_head / (p.plan.value_heads / p.plan.key_heads);
}

template <class I>
HJ_INLINE Task task_of(const Problem& p, int64_t item) {
  Task t;
  const int64_t block = item % p.plan.column_blocks;
  item /= p.plan.column_blocks;
  const int64_t groups = p.plan.value_heads / p.plan.group;
  t.first_value_head = item % groups * p.plan.group;
  t.key_head = key_head_of(p, t.first_value_head);
  item /= groups;
  t.sequence = item % p.call.sequences;
  t.batch = item / p.call.sequences;
  t.first_column = block * p.panels / p.plan.column_blocks * I::kPanel;
  const int64_t last = (block + 1) * p.panels / p.plan.column_blocks * I::kPanel;
  t.columns = (last < p.plan.value_dim ? last : p.plan.value_dim) - t.first_column;
  const int32_t* bounds = p.call.bounds + t.batch * (p.call.sequences + 1) + t.sequence;
  t.begin = bounds[0];
  t.end = bounds[1];
  return t;
}

HJ_INLINE int64_t state_offset(const Problem& p, const Task& t, int64_t head) {
  const int64_t row = (t.batch * p.call.sequences + t.sequence) * p.plan.value_heads + t.first_value_head + head;
  return row * p.plan.key_dim * p.plan.value_dim + t.first_column;
}

// Zero output for tokens [begin, end), which no sequence owns.
HJ_INLINE void zero_output(const Problem& p, const Task& t, int64_t begin, int64_t end) {
  const int64_t bytes = p.plan.output_dtype == kDtype_float32 ? kDtypeBytes_float32 : kDtypeBytes_float16;
  const Span s = {t.batch, begin, end - begin, t.key_head};
  for (int64_t r = 0; r < s.rows; ++r) {
    for (int64_t h = 0; h < p.plan.group; ++h) {
      const int64_t at = head_offset(p, s, r, t.first_value_head + h) * p.plan.value_dim + t.first_column;
      __builtin_memset(static_cast<char*>(p.call.output) + at * bytes, 0, static_cast<uint64_t>(t.columns * bytes));
    }
  }
}

// Between the row-major state and panels [panel][rows][kPanel], of whose rows the first Dk are moved; columns past the
// right edge are zero.
template <class I>
HJ_INLINE void pack_state(const float* state, int64_t pitch, int64_t dim, int64_t columns, int64_t rows,
                          float* panels) {
  for (int64_t c = 0; c < columns; c += I::kPanel, panels += rows * I::kPanel) {
    const int64_t width = columns - c < I::kPanel ? columns - c : I::kPanel;
    for (int64_t d = 0; d < dim; ++d) {
      float* to = panels + d * I::kPanel;
      over_columns<kNarrowest>(I::kPanel, [&](auto, int64_t j) HJ_INLINE_LAMBDA {
        store<kNarrowest>(to + j, j < width ? load<kNarrowest>(state + d * pitch + c + j) : F<kNarrowest>{});
      });
    }
  }
}

template <class I>
HJ_INLINE void unpack_state(const float* panels, int64_t pitch, int64_t dim, int64_t columns, int64_t rows,
                            float* state) {
  for (int64_t c = 0; c < columns; c += I::kPanel, panels += rows * I::kPanel) {
    const int64_t width = columns - c < I::kPanel ? columns - c : I::kPanel;
    for (int64_t d = 0; d < dim; ++d) {
      over_columns<kNarrowest>(width, [&](auto, int64_t j) HJ_INLINE_LAMBDA {
        store<kNarrowest>(state + d * pitch + c + j, load<kNarrowest>(panels + d * I::kPanel + j));
      });
    }
  }
}

// A sequence without tokens hands its state on.
HJ_INLINE void copy_state(const Problem& p, const Task& t) {
  if (p.call.state_in == p.call.state_out) return;
  for (int64_t h = 0; h < p.plan.group; ++h) {
    const int64_t at = state_offset(p, t, h);
    for (int64_t d = 0; d < p.plan.key_dim; ++d) {
      const int64_t row = at + d * p.plan.value_dim;
      __builtin_memcpy(p.call.state_out + row, p.call.state_in + row, static_cast<uint64_t>(t.columns) * sizeof(float));
    }
  }
}

// Whether the task's value head is the first of its key head, which the span then takes.
HJ_INLINE bool starts_key_head(const Problem& p, const Task& t, int64_t head, Span* s) {
  const int64_t key_head = key_head_of(p, t.first_value_head + head);
  if (head > 0 && key_head == s->key_head) return false;
  s->key_head = key_head;
  return true;
}

template <class I>
HJ_INLINE void run_tokens(const Problem& p, const Task& t, float* scratch, Work* work) {
  for (int64_t first = t.begin; first < t.end; first += p.plan.chunk) {
    const int64_t left = t.end - first;
    Span s = {t.batch, first, left < p.plan.chunk ? left : p.plan.chunk, t.key_head};
    for (int64_t h = 0; h < p.plan.group; ++h) {
      const int64_t at = state_offset(p, t, h);
      if (starts_key_head(p, t, h, &s)) load_rows<I>(p, s, scratch);
      for (int64_t r = 0; r < s.rows; ++r) {
        const float* state_in = first == t.begin && r == 0 ? p.call.state_in : p.call.state_out;
        const TokenRows rows = prepare_token<I>(p, s, r, t.first_value_head + h, scratch);
        step_token<I>(p, s, rows, r, t.first_value_head + h, t.first_column, t.columns, state_in + at,
                      p.call.state_out + at, scratch);
      }
    }
  }
  work->token_steps += t.end - t.begin;
  work->macs += 3 * (t.end - t.begin) * p.plan.group * p.plan.key_dim * t.columns;
}

// The weights of one value head in a chunk, and the rows that its panels multiply.
template <class I>
HJ_INLINE PanelRows prepare_head(const Problem& p, const Span& s, int64_t value_head, float* scratch, Work* work) {
  const Layout& at = p.layout;
  load_strengths(p, s, value_head, scratch);
  if (p.decay == kDecay_scalar) {
    decay_factors<I>(p, s, value_head, scratch);
    triangular_weights<I, true>(p, s.rows, scratch);
    return {scratch + at.key, scratch + at.query};
  }
  unit_factors(p, s.rows, scratch);
  if (p.decay == kDecay_none) {
    keep_rows(p, 1.0f, scratch);
    triangular_weights<I, false>(p, s.rows, scratch);
    return {scratch + at.key, scratch + at.query};
  }
  decay_channels<I>(p, s, value_head, scratch, work);
  triangular_weights<I, false>(p, s.rows, scratch);
  return {scratch + at.key_in, scratch + at.query_in};
}

// What the scores in the scratch of a task on tiles were made for.
enum Prepared { kOnTiles, kInFloats };

// One value head's block of columns through a chunk.
template <class I>
HJ_INLINE void run_head(const Problem& p, const Span& s, const Columns& c, bool first, float* states, float* scratch,
                        Work* work) {
  const Layout& at = p.layout;
  const int64_t panels = (c.columns + I::kPanel - 1) / I::kPanel;
  const PanelRows rows = prepare_head<I>(p, s, c.value_head, scratch, work);
  stage_values<I>(p, s, c, s.rows + kRowSlack, scratch);
  for (int64_t i = 0; i < panels; ++i) {
    float* state = states + i * at.state_rows * I::kPanel;
    prefetch_next(p, s, c, first, i, panels);
    run_panel<I>(p, rows, s.rows, i * I::kPanel, state, scratch, work);
  }
  store_rows<I>(p, s, c, scratch + at.outputs, at.value_pitch);
}

template <class I>
struct TaskOfChunks {
  const Problem& p;
  const Task& t;
  float* scratch;
  Work* work;
  int64_t panels = (t.columns + I::kPanel - 1) / I::kPanel;
  int64_t panel_floats = p.layout.state_rows * I::kPanel;

  HJ_INLINE float* states(int64_t head) const { return scratch + p.layout.states + head * panels * panel_floats; }
  HJ_INLINE Columns columns(int64_t head) const { return {t.first_value_head + head, t.first_column, t.columns}; }
  HJ_INLINE double* pending(int64_t head) const { return place<double>(scratch, p.layout.pending) + head; }

  // What is right of the last token or dim in whole tiles stays zero.
  HJ_INLINE void begin_tiles() const {
    const Layout& at = p.layout;
    I::Tiles::configure();
    const auto zero = [&](int64_t from, int64_t end) HJ_INLINE_LAMBDA {
      __builtin_memset(scratch + from, 0, static_cast<uint64_t>(end - from) * sizeof(float));
    };
    zero(at.key_parts, at.state_parts);
    zero(at.states, at.kept + at.state_rows);
    for (int64_t h = 0; h < p.plan.group; ++h) *pending(h) = 0;
  }

  // A head's states become what they stand for.
  HJ_INLINE void settle(int64_t head) const {
    const float scale = exp_of(*pending(head));
    *pending(head) = 0;
    if (scale == 1) return;
    float* state = states(head);
    for (int64_t i = 0; i < panels * panel_floats; i += I::W) store<I::W>(state + i, load<I::W>(state + i) * scale);
  }

  // In floats, panel by panel.
  HJ_INLINE void run_strong_head(const Span& s, int64_t head) const {
    settle(head);
    const Columns all = columns(head);
    const PanelRows rows = prepare_head<I>(p, s, all.value_head, scratch, work);
    for (int64_t i = 0; i < panels; ++i) {
      const int64_t first = i * I::kPanel, left = all.columns - first;
      const Columns c = {all.value_head, all.first + first, left < I::kPanel ? left : I::kPanel};
      stage_values<I>(p, s, c, s.rows + kRowSlack, scratch);
      run_panel<I>(p, rows, s.rows, 0, states(head) + i * panel_floats, scratch, work);
      store_rows<I>(p, s, c, scratch + p.layout.outputs, p.layout.value_pitch);
    }
  }

  // Decays that are too strong for tiles go through floats, which overwrite the scores of both.
  HJ_INLINE void run_on_tiles(const Span& s, int64_t head, bool starts, Prepared* prepared) const {
    const int64_t padded = round_up(s.rows, kMatrixStep);
    const double decay = log_decay_of(p, s, t.first_value_head + head);
    if (!is_mild(decay)) {
      if (starts || *prepared != kInFloats) prepare_chunk<I>(p, s, scratch, work);
      *prepared = kInFloats;
      return run_strong_head(s, head);
    }
    if (starts || *prepared != kOnTiles) prepare_matrix_chunk<I>(p, s, padded, scratch, work);
    *prepared = kOnTiles;
    const bool renew = !is_mild(*pending(head) + decay);
    const float scale = renew ? exp_of(*pending(head)) : 1.0f;
    if (renew) *pending(head) = 0;
    prepare_matrix_head<I>(p, s, t.first_value_head + head, padded, pending(head), scratch);
    run_matrix_head<I>(p, s, {columns(head), starts, panels, padded, states(head), scale}, scratch, work);
  }

  HJ_INLINE void run_in_floats(const Span& s, int64_t head, bool starts) const {
    if (starts) prepare_chunk<I>(p, s, scratch, work);
    run_head<I>(p, s, columns(head), starts, states(head), scratch, work);
  }

  template <bool kTiles>
  HJ_INLINE void go() const {
    const int64_t dim = p.plan.key_dim, pitch = p.plan.value_dim, rows = p.layout.state_rows;
    if constexpr (kTiles) begin_tiles();
    for (int64_t h = 0; h < p.plan.group; ++h) {
      pack_state<I>(p.call.state_in + state_offset(p, t, h), pitch, dim, t.columns, rows, states(h));
    }
    for (int64_t first = t.begin; first < t.end; first += p.plan.chunk) {
      const int64_t left = t.end - first;
      Span s = {t.batch, first, left < p.plan.chunk ? left : p.plan.chunk, t.key_head};
      Prepared prepared = kOnTiles;
      for (int64_t h = 0; h < p.plan.group; ++h) {
        const bool starts = starts_key_head(p, t, h, &s);
        if constexpr (kTiles) {
          run_on_tiles(s, h, starts, &prepared);
        } else {
          run_in_floats(s, h, starts);
        }
      }
      ++work->chunks;
    }
    for (int64_t h = 0; h < p.plan.group; ++h) {
      if constexpr (kTiles) settle(h);
      unpack_state<I>(states(h), pitch, dim, t.columns, rows, p.call.state_out + state_offset(p, t, h));
    }
    if constexpr (kTiles) I::Tiles::release();
  }
};

// On matrix tiles where the plan says so, else in floats.
template <class I>
HJ_INLINE void choose_chunks(const Problem& p, const Task& t, float* scratch, Work* work) {
  if constexpr (I::Tiles::kThere) {
    if (p.layout.matrix_rows > 0) return TaskOfChunks<I>{p, t, scratch, work}.template go<true>();
  }
  TaskOfChunks<I>{p, t, scratch, work}.template go<false>();
}

template <class I>
void run_task(const Problem& p, int64_t item, float* scratch, Work* work) {
  const Task t = task_of<I>(p, item);
  if (t.sequence == 0) zero_output(p, t, 0, t.begin);
  if (t.sequence == p.call.sequences - 1) zero_output(p, t, t.end, p.call.tokens);
  const int64_t tokens = t.end - t.begin;
  if (tokens == 0) {
    copy_state(p, t);
  } else if (tokens <= p.plan.token_steps) {
    run_tokens<I>(p, t, scratch, work);
  } else {
    choose_chunks<I>(p, t, scratch, work);
  }
  ++work->tasks;
}

}  // namespace
}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_KERNELS_TASK_H_
