#include "native/cpu/run.h"

#include <atomic>

#include "native/cpu/subnormals.h"

namespace hajax::cpu {
namespace {

struct Job {
  Problem problem;
  void (*task)(const Problem&, int64_t, float*, Work*);
  std::atomic<int32_t> stray{-1};  // a worker number that run should not have used
};

float* scratch_of(const Problem& p, int32_t worker) {
  return reinterpret_cast<float*>(static_cast<char*>(p.call.scratch) + worker * p.plan.scratch_bytes);
}

void run_item(void* argument, int64_t item, int32_t worker) {
  Job& job = *static_cast<Job*>(argument);
  if (worker < 0 || worker >= job.problem.plan.workers || item < 0 || item >= job.problem.items) {
    job.stray.store(worker, std::memory_order_relaxed);
    return;
  }
  const SubnormalsAreZero mode;
  float* scratch = scratch_of(job.problem, worker);
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
  p.items = call.batch * call.sequences * view.plan.key_heads * p.subgroups * view.plan.column_blocks;
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
  counters[kCounter_bf16_dot] = p.gram != nullptr && counters[kCounter_chunks] > 0 ? 1 : 0;
}

}  // namespace

Failure run(const PlanView& view, const hj_delta_call& call, const hj_parallel* parallel, int64_t* counters) {
  Job job;
  job.problem = problem_of(view, call);
  job.task = view.kernels->task;
  for (int32_t worker = 0; worker < view.plan.workers; ++worker) {
    *reinterpret_cast<Work*>(scratch_of(job.problem, worker)) = Work{};
  }
  if (parallel != nullptr) {
    parallel->run(parallel->context, job.problem.items, view.plan.workers, run_item, &job);
  } else {
    for (int64_t item = 0; item < job.problem.items; ++item) run_item(&job, item, 0);
  }
  if (const int32_t stray = job.stray.load(); stray != -1) {
    return wrong(kStatus_internal, "parallel", "worker", "0.." + std::to_string(view.plan.workers - 1),
                 std::to_string(stray));
  }
  if (counters != nullptr) fill_counters(job.problem, counters);
  return {};
}

}  // namespace hajax::cpu
