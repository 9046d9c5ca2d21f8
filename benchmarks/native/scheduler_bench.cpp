// Scheduler, admission and simulation: cost per task and transitions per second.
#include <benchmark/benchmark.h>

#include <random>
#include <string>

#include "runtime/scheduler/scheduler.h"
#include "runtime/scheduler/simulation.h"

namespace gpk::runtime {
namespace {

SchedulerConfig config_for(benchmark::State& state) {
  SchedulerConfig config;
  config.order.policy = static_cast<SchedulePolicy>(state.range(0));
  config.max_ended_kept = 1000;
  return config;
}

void report_transitions(benchmark::State& state, const Scheduler& scheduler) {
  state.counters["transitions"] = benchmark::Counter(
      static_cast<double>(scheduler.stats().num_transitions), benchmark::Counter::kIsRate);
}

// One task at a time: pending, queued, admitted, running, completed.
void BM_TaskLife(benchmark::State& state) {
  Scheduler scheduler(std::make_shared<LimitLedger>(1 << 20), config_for(state));
  for (auto _ : state) {
    const TaskId id = scheduler.submit({.memory_bytes = 4096});
    scheduler.start(id);
    scheduler.complete(id);
  }
  report_transitions(state, scheduler);
}
BENCHMARK(BM_TaskLife)->Arg(0)->Arg(1)->Arg(2);

// A thousand tasks wait; each end lets another one in.
void BM_Backlog(benchmark::State& state) {
  Scheduler scheduler(std::make_shared<LimitLedger>(1 << 20), config_for(state));
  std::mt19937_64 random(1);
  const auto submit = [&] {
    scheduler.submit({.priority = static_cast<int>(random() % 10),
                      .memory_bytes = 4096,
                      .estimated_ns = static_cast<std::int64_t>(random() % 1000)});
  };
  for (int i = 0; i < 1000; ++i) submit();
  for (auto _ : state) {
    submit();
    for (const TaskId id : scheduler.start_runnable(1)) scheduler.complete(id);
  }
  report_transitions(state, scheduler);
}
BENCHMARK(BM_Backlog)->Arg(0)->Arg(1)->Arg(2);

// Chains of dependencies.
void BM_Chain(benchmark::State& state) {
  Scheduler scheduler(std::make_shared<LimitLedger>(1 << 20), config_for(state));
  for (auto _ : state) {
    TaskId last = kNoTask;
    for (int i = 0; i < 100; ++i) {
      TaskSpec spec;
      if (last != kNoTask) spec.dependencies.push_back(last);
      last = scheduler.submit(std::move(spec));
    }
    for (;;) {
      const auto ids = scheduler.start_runnable(1);
      if (ids.empty()) break;
      scheduler.complete(ids.front());
    }
  }
  report_transitions(state, scheduler);
}
BENCHMARK(BM_Chain)->Arg(0);

void BM_RunBody(benchmark::State& state) {
  Scheduler scheduler(std::make_shared<LimitLedger>(1 << 20), config_for(state));
  std::size_t num_run = 0;
  for (auto _ : state) {
    scheduler.submit({.body = [&num_run](TaskContext&) { ++num_run; }});
    scheduler.run_ready(1);
  }
  benchmark::DoNotOptimize(num_run);
  report_transitions(state, scheduler);
}
BENCHMARK(BM_RunBody)->Arg(0);

void BM_Admit(benchmark::State& state) {
  Scheduler scheduler(std::make_shared<LimitLedger>(1 << 20), config_for(state));
  for (auto _ : state) scheduler.cancel(scheduler.admit({.memory_bytes = 4096}).id);
}
BENCHMARK(BM_Admit)->Arg(0);

void BM_Simulate10k(benchmark::State& state) {
  std::mt19937_64 random(9);
  std::vector<SimTask> trace;
  std::int64_t now_ns = 0;
  for (std::size_t i = 0; i < 10'000; ++i) {
    now_ns += static_cast<std::int64_t>(random() % 2000);
    SimTask task;
    task.arrival_ns = now_ns;
    task.duration_ns = static_cast<std::int64_t>(random() % 5000);
    task.memory_bytes = random() % 40;
    task.compute = 0.1 + static_cast<double>(random() % 5) / 10;
    task.bandwidth = static_cast<double>(random() % 3) / 10;
    task.qos = static_cast<QosClass>(random() % 3);
    if (i > 10 && random() % 4 == 0) task.dependencies = {i - 1 - random() % 10};
    trace.push_back(std::move(task));
  }
  SimDevice device;
  device.memory_bytes = 100;
  device.num_streams = 8;
  SchedulerConfig config = config_for(state);
  config.max_pending_tasks = trace.size();
  for (auto _ : state) benchmark::DoNotOptimize(simulate(trace, device, config));
}
BENCHMARK(BM_Simulate10k)->Arg(0)->Arg(2)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace gpk::runtime
