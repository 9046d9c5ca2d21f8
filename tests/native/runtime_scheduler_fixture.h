// A scheduler with a ledger and a clock moved by hand, for tests.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "expect.h"
#include "runtime/scheduler/scheduler.h"

namespace gpk::runtime {

class SchedulerFixture : public testing::Test {
 protected:
  void make(std::size_t total_bytes, SchedulerConfig config = {}) {
    ledger = std::make_shared<LimitLedger>(total_bytes);
    scheduler = std::make_unique<Scheduler>(ledger, config, clock);
  }
  void SetUp() override { make(LimitLedger::kUnlimited); }
  void TearDown() override {
    for (const TaskInfo& task : scheduler->snapshot().tasks) scheduler->cancel(task.id);
    EXPECT_EQ(ledger->reserved_bytes(), 0u);
    EXPECT_EQ(scheduler->stats().reserved_memory_bytes, 0u);
    EXPECT_EQ(scheduler->stats().reserved_bandwidth, 0.0);
  }
  TaskId submit(std::size_t bytes = 0, std::vector<TaskId> dependencies = {}, int priority = 0) {
    TaskSpec spec;
    spec.memory_bytes = bytes;
    spec.dependencies = std::move(dependencies);
    spec.priority = priority;
    return scheduler->submit(std::move(spec));
  }
  TaskState state(TaskId id) { return scheduler->state(id); }
  void expect_state(TaskId id, TaskState expected) {
    EXPECT_STREQ(to_string(state(id)), to_string(expected)) << "task " << id;
  }
  TaskId run_next() {
    const auto ids = scheduler->start_runnable(1);
    return ids.empty() ? kNoTask : ids.front();
  }

  std::shared_ptr<ManualClock> clock = std::make_shared<ManualClock>();
  std::shared_ptr<LimitLedger> ledger;
  std::unique_ptr<Scheduler> scheduler;
};

}  // namespace gpk::runtime
