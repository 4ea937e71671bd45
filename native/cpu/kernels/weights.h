// What one value head makes of a chunk before it meets the state: strengths, decay factors, the triangular matrix of
// the solve, the mixing matrix.
#ifndef HAJAX_NATIVE_CPU_KERNELS_WEIGHTS_H_
#define HAJAX_NATIVE_CPU_KERNELS_WEIGHTS_H_

#include "native/cpu/kernels/chunk.h"
#include "native/cpu/kernels/exp.h"

namespace hajax::cpu {
namespace {

// What lies in a row of two strengths a token and value head.
constexpr int64_t kErase = 0, kWrite = 1, kStrengths = 2;

HJ_INLINE void load_strengths(const Problem& p, const Span& s, int64_t value_head, float* scratch) {
  float* write = scratch + p.layout.write;
  float* erase = scratch + p.layout.erase;
  for (int64_t r = 0; r < s.rows; ++r) {
    const int64_t index = head_offset(p, s, r, value_head);
    erase[r] = p.two_strengths ? p.call.beta[index * kStrengths + kErase] : p.call.beta[index];
    write[r] = p.two_strengths ? p.call.beta[index * kStrengths + kWrite] : p.call.beta[index];
  }
  for (int64_t r = s.rows; r < s.rows + kRowSlack; ++r) write[r] = erase[r] = 0;  // rows that tiles overshoot into
}

// Nothing is decayed here: there is no decay, or the rows themselves are decayed.
HJ_INLINE void unit_factors(const Problem& p, int64_t rows, float* scratch) {
  const Layout& at = p.layout;
  for (int64_t r = 0; r < rows + kRowSlack; ++r) scratch[at.from_start + r] = scratch[at.to_end + r] = 1;
}

HJ_INLINE void keep_rows(const Problem& p, float decay, float* scratch) {
  for (int64_t d = 0; d < p.plan.key_dim; ++d) scratch[p.layout.kept + d] = decay;
}

// Decays are sums over just the tokens between the two ends: a difference of running sums would lose the small ones
// beside the large.
template <class I>
HJ_INLINE void decay_factors(const Problem& p, const Span& s, int64_t value_head, float* scratch) {
  constexpr int W = I::W;
  const Layout& at = p.layout;
  float* log_decay = scratch + at.log_decay;
  float* from_start = scratch + at.from_start;
  float* to_end = scratch + at.to_end;
  float* rest = scratch + at.segment;  // triangular_weights fills it after this
  // What a sum loses when it is rounded comes back as a factor: an exponent near -80 would otherwise put a relative
  // 4e-6 on a state that nothing is written to.
  const auto put = [&](float* sums, int64_t r, double sum) HJ_INLINE_LAMBDA {
    const double kept = sum < kExpVanished ? kExpVanished : sum;  // in this form a NaN passes
    sums[r] = static_cast<float>(kept);
    rest[r] = static_cast<float>(kept - static_cast<double>(sums[r]));
  };
  const int64_t padded = round_up(s.rows, kRowSlack);
  const auto exponentiate = [&](float* sums) HJ_INLINE_LAMBDA {
    over_columns<W>(padded, [&](auto width, int64_t r) HJ_INLINE_LAMBDA {
      constexpr int V = decltype(width)::value;
      store<V>(sums + r, exp_nonpositive<V>(load<V>(sums + r)) * (load<V>(rest + r) + 1.0f));
    });
  };
  for (int64_t r = s.rows; r < s.rows + kRowSlack; ++r) {  // rows that tiles overshoot into
    log_decay[r] = from_start[r] = to_end[r] = rest[r] = 0;
  }
  double running = 0;
  for (int64_t r = 0; r < s.rows; ++r) {
    log_decay[r] = p.call.log_decay[head_offset(p, s, r, value_head)];
    running += static_cast<double>(log_decay[r]);
    put(from_start, r, running);
  }
  exponentiate(from_start);
  running = 0;
  for (int64_t r = s.rows - 1; r >= 0; --r) {
    put(to_end, r, running);
    running += static_cast<double>(log_decay[r]);
  }
  exponentiate(to_end);
  keep_rows(p, from_start[s.rows - 1], scratch);
}

// lower[i][j] = erase_i (k_i . k_j) e^(g_{j+1} + ... + g_i) for j < i, mix[i][j] = (q_i . k_j) e^(...) for j <= i, zero
// elsewhere. Without Decayed the exponentials are left out: they are 1, or the products are decayed already.
template <class I, bool Decayed>
HJ_INLINE void triangular_weights(const Problem& p, int64_t rows, float* scratch) {
  constexpr int W = I::W;
  using Int = typename VecOf<W>::I;
  const Layout& at = p.layout;
  float* segment = scratch + at.segment;
  if constexpr (Decayed) {
    for (int64_t c = 0; c < at.pitch; c += W) store<W>(segment + c, F<W>{});
  }
  for (int64_t i = 0; i < rows; ++i) {
    const float* kk = scratch + at.kk + i * at.pitch;
    const float* qk = scratch + at.qk + i * at.pitch;
    float* lower = scratch + at.lower + i * at.pitch;
    float* mix = scratch + at.mix + i * at.pitch;
    const F<W> erase = splat<W>(scratch[at.erase + i]);
    const int64_t end = round_up(i + kRowSlack, W);
    for (int64_t c = 0; c < end; c += W) {
      const Int column = iota<W>() + static_cast<int32_t>(c);
      const Int before = column < static_cast<int32_t>(i);
      const Int upto = column <= static_cast<int32_t>(i);
      F<W> decay;
      if constexpr (Decayed) {
        F<W> sums = load<W>(segment + c);
        sums += before ? splat<W>(scratch[at.log_decay + i]) : F<W>{};
        store<W>(segment + c, sums);
        decay = exp_nonpositive<W>(sums);
      } else {
        decay = splat<W>(1.0f);
      }
      if (p.delta) store<W>(lower + c, before ? erase * load<W>(kk + c) * decay : F<W>{});
      store<W>(mix + c, upto ? load<W>(qk + c) * decay : F<W>{});
    }
  }
  for (int64_t i = rows; i < rows + kRowSlack; ++i) {  // rows that tiles overshoot into
    for (int64_t c = 0; c < round_up(rows + kRowSlack, W); c += W) {
      store<W>(scratch + at.lower + i * at.pitch + c, F<W>{});
      store<W>(scratch + at.mix + i * at.pitch + c, F<W>{});
    }
  }
}

}  // namespace
}  // namespace hajax::cpu

#endif  // HAJAX_NATIVE_CPU_KERNELS_WEIGHTS_H_
