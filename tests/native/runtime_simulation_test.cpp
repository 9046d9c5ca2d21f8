#include "runtime/scheduler/simulation.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "base/error.h"
#include "expect.h"

namespace gpk::runtime {
namespace {

SimDevice device(std::size_t memory = 100, std::size_t num_streams = 1) {
  SimDevice result;
  result.memory_bytes = memory;
  result.num_streams = num_streams;
  return result;
}

SchedulerConfig policy(SchedulePolicy value = SchedulePolicy::kFifo) {
  SchedulerConfig config;
  config.order.policy = value;
  config.max_pending_tasks = 1'000'000;
  return config;
}

TEST(RuntimeSimulation, OneStreamIsAQueue) {
  const std::vector<SimTask> trace = {{.arrival_ns = 0, .duration_ns = 100},
                                      {.arrival_ns = 10, .duration_ns = 50},
                                      {.arrival_ns = 20, .duration_ns = 10},
                                      {.arrival_ns = 300, .duration_ns = 40}};
  const SimResult fifo = simulate(trace, device(), policy());
  EXPECT_EQ(fifo.tasks[1].wait_ns, 90);
  EXPECT_EQ(fifo.tasks[2].wait_ns, 130);
  EXPECT_EQ(fifo.tasks[3].wait_ns, 0);
  EXPECT_EQ(fifo.tasks[3].ended_ns, 340);
  EXPECT_EQ(fifo.makespan_ns, 340);
  EXPECT_DOUBLE_EQ(fifo.compute_utilisation, 200.0 / 340);
  EXPECT_EQ(fifo.num_completed, 4u);
  EXPECT_DOUBLE_EQ(fifo.waits.mean_ns, 55.0);
  EXPECT_EQ(fifo.waits.max_ns, 130);
  EXPECT_EQ(fifo.waits.p50_ns, 0);
  const SimResult sjf = simulate(trace, device(), policy(SchedulePolicy::kSjf));
  EXPECT_EQ(sjf.tasks[2].wait_ns, 80);
  EXPECT_EQ(sjf.tasks[1].wait_ns, 100);
  EXPECT_NE(fifo.text().find("4 completed"), std::string::npos);
}

TEST(RuntimeSimulation, TasksShareComputeAndBandwidth) {
  // Two that use the whole device go at half speed until the first is done.
  const std::vector<SimTask> trace = {{.duration_ns = 100}, {.duration_ns = 200}};
  const SimResult two = simulate(trace, device(100, 2), policy());
  EXPECT_EQ(two.tasks[0].ended_ns, 200);
  EXPECT_EQ(two.tasks[1].ended_ns, 300);
  EXPECT_DOUBLE_EQ(two.compute_utilisation, 1.0);
  // Halves fit beside each other; bandwidth slows the ones that use it.
  const std::vector<SimTask> light = {{.duration_ns = 100, .compute = 0.5, .bandwidth = 0.8},
                                      {.duration_ns = 100, .compute = 0.25, .bandwidth = 0.8},
                                      {.duration_ns = 100, .compute = 0.25}};
  const SimResult three = simulate(light, device(100, 3), policy());
  EXPECT_EQ(three.tasks[0].ended_ns, 160);
  EXPECT_EQ(three.tasks[1].ended_ns, 160);
  EXPECT_EQ(three.tasks[2].ended_ns, 100);
}

TEST(RuntimeSimulation, HigherClassesAreServedFirst) {
  const std::vector<SimTask> trace = {
      {.arrival_ns = 0, .duration_ns = 100},
      {.arrival_ns = 50, .duration_ns = 30, .compute = 0.8, .qos = QosClass::kGuaranteed}};
  const SimResult result = simulate(trace, device(100, 2), policy());
  EXPECT_EQ(result.tasks[1].ended_ns, 80);   // as if it were alone
  EXPECT_EQ(result.tasks[0].ended_ns, 124);  // lost 0.8 of 30 ns
  // A task that gets nothing at all proceeds when the others have ended.
  const std::vector<SimTask> full = {{.duration_ns = 100},
                                     {.duration_ns = 40, .qos = QosClass::kBurstable}};
  EXPECT_EQ(simulate(full, device(100, 2), policy()).tasks[0].ended_ns, 140);
}

TEST(RuntimeSimulation, MemoryPartitionsAndDependenciesGateTheStart) {
  SimDevice gpu = device(100, 8);
  gpu.partition_limits_bytes = {{"small", 30}};
  const std::vector<SimTask> trace = {
      {.duration_ns = 100, .memory_bytes = 60, .compute = 0.1},
      {.duration_ns = 10, .memory_bytes = 60, .compute = 0.1},
      {.duration_ns = 10, .memory_bytes = 30, .compute = 0.1, .partition = "small"},
      {.duration_ns = 10, .memory_bytes = 30, .compute = 0.1, .partition = "small"},
      {.duration_ns = 5, .compute = 0.1, .dependencies = {2, 3}}};
  const SimResult result = simulate(trace, gpu, policy());
  EXPECT_EQ(result.tasks[1].started_ns, 100);
  EXPECT_EQ(result.tasks[2].started_ns, 0);
  EXPECT_EQ(result.tasks[3].started_ns, 10);
  EXPECT_EQ(result.tasks[4].started_ns, 20);
  EXPECT_EQ(result.timeline.front().reserved_memory_bytes, 90u);
  EXPECT_EQ(result.timeline.back().reserved_memory_bytes, 0u);
  EXPECT_EQ(result.timeline.back().num_running, 0u);
}

TEST(RuntimeSimulation, DeadlinesAndRejections) {
  const std::vector<SimTask> trace = {{.duration_ns = 100},
                                      {.duration_ns = 10, .deadline_ns = 50},
                                      {.duration_ns = 10, .memory_bytes = 101},
                                      {.duration_ns = 10, .dependencies = {1}},
                                      {.duration_ns = 10, .dependencies = {2}},
                                      {.arrival_ns = 90, .duration_ns = 20, .deadline_ns = 105}};
  const SimResult result = simulate(trace, device(), policy());
  EXPECT_EQ(result.tasks[1].state, TaskState::kFailed);
  EXPECT_EQ(result.tasks[1].ended_ns, 51);
  EXPECT_TRUE(result.tasks[2].rejected);
  EXPECT_NE(result.tasks[2].reason.find("Insufficient memory"), std::string::npos);
  EXPECT_EQ(result.tasks[3].state, TaskState::kFailed);
  EXPECT_TRUE(result.tasks[4].rejected);
  EXPECT_EQ(result.tasks[5].state, TaskState::kCompleted);  // late, and reported
  EXPECT_EQ(result.num_missed_deadlines, 2u);
  EXPECT_EQ(result.num_rejected, 2u);
  EXPECT_EQ(result.num_failed, 2u);
}

TEST(RuntimeSimulation, BadTracesAreValueErrors) {
  const auto bad = [](SimTask task) {
    EXPECT_EQ(kind_of([&] { (void)simulate({task}, device(), policy()); }), Error::Kind::kValue);
  };
  bad({.arrival_ns = -1});
  bad({.duration_ns = -1});
  bad({.compute = -0.5});
  bad({.bandwidth = std::nan("")});
  bad({.dependencies = {0}});
  bad({.dependencies = {5}});
  EXPECT_EQ(kind_of([&] { (void)simulate({}, device(100, 0), policy()); }), Error::Kind::kValue);
  SimDevice broken = device();
  broken.compute = 0.0;
  EXPECT_EQ(kind_of([&] { (void)simulate({}, broken, policy()); }), Error::Kind::kValue);
  // A dependency may be later in the list, not later in time.
  const std::vector<SimTask> swapped = {{.arrival_ns = 10, .dependencies = {1}},
                                        {.duration_ns = 5}};
  EXPECT_EQ(simulate(swapped, device(), policy()).num_completed, 2u);
  EXPECT_EQ(simulate({}, device(), policy()).makespan_ns, 0);
}

std::vector<SimTask> random_trace(std::size_t num_tasks) {
  std::mt19937_64 random(num_tasks);
  std::vector<SimTask> trace;
  std::int64_t now_ns = 0;
  for (std::size_t i = 0; i < num_tasks; ++i) {
    now_ns += static_cast<std::int64_t>(random() % 2000);
    SimTask task;
    task.arrival_ns = now_ns;
    task.duration_ns = static_cast<std::int64_t>(random() % 5000);
    task.memory_bytes = random() % 40;
    task.compute = 0.1 + static_cast<double>(random() % 5) / 10;
    task.bandwidth = static_cast<double>(random() % 3) / 10;
    task.qos = static_cast<QosClass>(random() % 3);
    task.priority = static_cast<int>(random() % 4);
    if (i > 10 && random() % 4 == 0) task.dependencies = {i - 1 - random() % 10};
    trace.push_back(task);
  }
  return trace;
}

TEST(RuntimeSimulation, ThousandsOfTasksDeterministically) {
  const std::vector<SimTask> trace = random_trace(3000);
  const SimResult first = simulate(trace, device(100, 4), policy(SchedulePolicy::kPriority));
  const SimResult second = simulate(trace, device(100, 4), policy(SchedulePolicy::kPriority));
  EXPECT_EQ(first.num_completed, trace.size());
  ASSERT_EQ(first.timeline.size(), second.timeline.size());
  for (std::size_t i = 0; i < trace.size(); ++i) {
    ASSERT_EQ(first.tasks[i].started_ns, second.tasks[i].started_ns);
    ASSERT_EQ(first.tasks[i].stream, second.tasks[i].stream);
    ASSERT_GE(first.tasks[i].started_ns, trace[i].arrival_ns);
    ASSERT_GE(first.tasks[i].ended_ns - first.tasks[i].started_ns, trace[i].duration_ns);
    for (const std::size_t d : trace[i].dependencies)
      ASSERT_GE(first.tasks[i].started_ns, first.tasks[d].ended_ns);
  }
  for (const SimSample& sample : first.timeline) {
    ASSERT_LE(sample.reserved_memory_bytes, 100u);
    ASSERT_LE(sample.num_running, 4u);
    ASSERT_LE(sample.compute, 1.0 + 1e-9);
    ASSERT_LE(sample.bandwidth, 1.0 + 1e-9);
  }
  EXPECT_EQ(first.text(), second.text());
  EXPECT_LE(first.compute_utilisation, 1.0);
  // The classes do what they are for.
  EXPECT_LT(first.waits_by_class[0].mean_ns, first.waits_by_class[1].mean_ns);
  EXPECT_LT(first.waits_by_class[1].mean_ns, first.waits_by_class[2].mean_ns);
  EXPECT_EQ(first.scheduler.reserved_memory_bytes, 0u);
  EXPECT_EQ(first.scheduler.reserved_bandwidth, 0.0);
}

}  // namespace
}  // namespace gpk::runtime
