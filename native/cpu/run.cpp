#include "native/cpu/run.h"

#include <atomic>

#include "native/cpu/backward_layout.h"
#include "native/cpu/call_check.h"
#include "native/cpu/subnormals.h"

namespace hajax::cpu {
namespace {

// `problem` is all of what `task` is given, `common` what every task has.
template <class P>
struct Job {
  const P& problem;
  const Problem& common;
  void (*task)(const P&, int64_t, float*, Work*);
  std::atomic<int32_t> stray{-1};  // a worker number that run should not have used
};

float* scratch_of(const Problem& p, int32_t worker) {
  return reinterpret_cast<float*>(static_cast<char*>(p.call.scratch) + worker * p.plan.scratch_bytes);
}

template <class P>
void run_item(void* argument, int64_t item, int32_t worker) {
  Job<P>& job = *static_cast<Job<P>*>(argument);
  if (worker < 0 || worker >= job.common.plan.workers || item < 0 || item >= job.common.items) {
    job.stray.store(worker, std::memory_order_relaxed);
    return;
  }
  const SubnormalsAreZero mode;
  float* scratch = scratch_of(job.common, worker);
  job.task(job.problem, item, scratch, reinterpret_cast<Work*>(scratch));
}

Problem problem_of(const PlanView& view, const hj_delta_call& call) {
  Problem p;
  p.call = call;
  p.plan = view.plan;
  p.layout = view.layout;
  p.gram = view.gram;
  p.subgroups = view.plan.value_heads / view.plan.key_heads / view.plan.group;
  p.panels = (view.plan.value_dim + view.plan.panel - 1) / view.plan.panel;
  p.items = call.batch * call.sequences * (view.plan.value_heads / view.plan.group) * view.plan.column_blocks;
  p.decay = view.plan.header.decay;
  p.delta = view.plan.header.delta != 0;
  p.two_strengths = view.plan.header.strengths == 2;
  return p;
}

void fill_counters(const Problem& p, int64_t* counters) {
  for (int i = 0; i < HJ_COUNTERS; ++i) counters[i] = 0;
  counters[kCounter_isa] = p.plan.isa;
  counters[kCounter_chunk] = p.plan.chunk;
  for (int32_t worker = 0; worker < p.plan.workers; ++worker) {
    const Work& work = *reinterpret_cast<const Work*>(scratch_of(p, worker));
    counters[kCounter_tasks] += work.tasks;
    counters[kCounter_workers] += work.tasks > 0 ? 1 : 0;
    counters[kCounter_chunks] += work.chunks;
    counters[kCounter_token_steps] += work.token_steps;
    counters[kCounter_macs] += work.macs;
  }
  // Token by token the dot product is never taken.
  counters[kCounter_bf16_dot] = p.plan.bf16_dot != 0 && counters[kCounter_chunks] > 0 ? 1 : 0;
}

template <class P>
Failure run_job(Job<P>& job, const hj_parallel* parallel, int64_t* counters) {
  const Problem& common = job.common;
  for (int32_t worker = 0; worker < common.plan.workers; ++worker) {
    *reinterpret_cast<Work*>(scratch_of(common, worker)) = Work{};
  }
  if (parallel != nullptr) {
    parallel->run(parallel->context, common.items, common.plan.workers, run_item<P>, &job);
  } else {
    for (int64_t item = 0; item < common.items; ++item) run_item<P>(&job, item, 0);
  }
  if (const int32_t stray = job.stray.load(); stray != -1) {
    return wrong(kStatus_internal, "parallel", "worker", "0.." + std::to_string(common.plan.workers - 1),
                 std::to_string(stray));
  }
  if (counters != nullptr) fill_counters(common, counters);
  return {};
}

}  // namespace

Failure run(const PlanView& view, const hj_delta_call& call, const hj_parallel* parallel, int64_t* counters) {
  const Problem problem = problem_of(view, call);
  Job<Problem> job{problem, problem, view.kernels->task};
  return run_job(job, parallel, counters);
}

Failure run_backward(const PlanView& view, const hj_delta_backward& call, const hj_parallel* parallel,
                     int64_t* counters) {
  BackwardProblem problem = {};
  problem.forward = problem_of(view, operands_of(call));
  problem.call = call;
  problem.at = backward_layout_of(view.plan, call.tokens, &problem.forward.layout);
  Job<BackwardProblem> job{problem, problem.forward, view.kernels->backward_task};
  return run_job(job, parallel, counters);
}

}  // namespace hajax::cpu
