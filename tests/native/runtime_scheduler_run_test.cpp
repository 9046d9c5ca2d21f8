// Bodies, waiting, callbacks and threads of the scheduler.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <latch>
#include <random>
#include <thread>

#include "base/error.h"
#include "runtime/scheduler/scheduler.h"

namespace gpk::runtime {
namespace {

using namespace std::chrono_literals;

TaskSpec with_body(TaskBody body, std::vector<TaskId> dependencies = {}, std::size_t bytes = 0) {
  TaskSpec spec;
  spec.body = std::move(body);
  spec.dependencies = std::move(dependencies);
  spec.memory_bytes = bytes;
  return spec;
}

struct CustomError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

TEST(RuntimeSchedulerRun, BodiesRunInOrderAndEndCompleted) {
  Scheduler scheduler;
  std::vector<int> log;
  const TaskId a = scheduler.submit(with_body([&](TaskContext&) { log.push_back(1); }));
  const TaskId b = scheduler.submit(with_body([&](TaskContext&) { log.push_back(2); }, {a}));
  const TaskId c = scheduler.submit(with_body([&](TaskContext&) { log.push_back(3); }));
  EXPECT_TRUE(scheduler.start_runnable(9).empty());  // not the caller's to drive
  EXPECT_FALSE(scheduler.start(a));
  EXPECT_EQ(scheduler.run_ready(1), 1u);
  EXPECT_EQ(scheduler.run_until_idle(), 2u);
  EXPECT_EQ(log, (std::vector<int>{1, 2, 3}));
  for (const TaskId id : {a, b, c}) EXPECT_EQ(scheduler.result(id).state, TaskState::kCompleted);
}

TEST(RuntimeSchedulerRun, WhatABodyThrowsReachesTheWaiter) {
  const auto ledger = std::make_shared<LimitLedger>(100);
  Scheduler scheduler(ledger);
  const TaskId bad =
      scheduler.submit(with_body([](TaskContext&) { throw CustomError("kernel failed"); }, {}, 60));
  const TaskId odd = scheduler.submit(with_body([](TaskContext&) { throw 42; }, {}, 60));
  const TaskId dependent = scheduler.submit(with_body([](TaskContext&) {}, {bad}, 10));
  const TaskId good = scheduler.submit(with_body([](TaskContext&) {}, {}, 100));
  EXPECT_EQ(scheduler.run_until_idle(), 3u);
  EXPECT_THROW(scheduler.result(bad), CustomError);
  EXPECT_THROW(scheduler.result(bad), CustomError);  // kept, not consumed
  EXPECT_THROW(scheduler.result(odd), int);
  EXPECT_EQ(scheduler.info(bad).reason, "kernel failed");
  try {
    scheduler.result(dependent);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("kernel failed"), std::string::npos);
  }
  EXPECT_EQ(scheduler.result(good).state, TaskState::kCompleted);
  EXPECT_EQ(ledger->reserved_bytes(), 0u);
}

TEST(RuntimeSchedulerRun, ARunningBodyIsAskedToStop) {
  const auto ledger = std::make_shared<LimitLedger>(100);
  Scheduler scheduler(ledger);
  std::latch started(1);
  const TaskId id = scheduler.submit(with_body(
      [&](TaskContext& context) {
        started.count_down();
        while (!context.cancel_requested()) std::this_thread::yield();
      },
      {}, 70));
  std::jthread worker([&] { scheduler.run_until_idle(); });
  started.wait();
  EXPECT_FALSE(scheduler.complete(id));  // the worker's to end
  EXPECT_FALSE(scheduler.fail(id, "no"));
  EXPECT_TRUE(scheduler.cancel(id, "enough"));
  const auto info = scheduler.wait(id);
  ASSERT_TRUE(info);
  EXPECT_EQ(info->state, TaskState::kCancelled);
  EXPECT_EQ(info->reason, "enough");
  worker.join();
  EXPECT_EQ(ledger->reserved_bytes(), 0u);
  EXPECT_THROW(scheduler.result(id), Error);
}

TEST(RuntimeSchedulerRun, MemoryOfARunningBodyIsKeptUntilItHasEnded) {
  const auto ledger = std::make_shared<LimitLedger>(100);
  Scheduler scheduler(ledger);
  std::latch started(1);
  std::latch go_on(1);
  const TaskId id = scheduler.submit(with_body(
      [&](TaskContext&) {
        started.count_down();
        go_on.wait();
      },
      {}, 70));
  const TaskId next = scheduler.submit({.memory_bytes = 70});
  std::jthread worker([&] { scheduler.run_ready(1); });
  started.wait();
  scheduler.cancel(id);
  EXPECT_EQ(ledger->reserved_bytes(), 70u);
  EXPECT_EQ(scheduler.state(next), TaskState::kQueued);
  EXPECT_TRUE(scheduler.info(id).cancel_requested);
  go_on.count_down();
  scheduler.wait(id);
  EXPECT_EQ(scheduler.state(next), TaskState::kAdmitted);
}

TEST(RuntimeSchedulerRun, ADetachedTaskEndsWhenItsWorkDoes) {
  Scheduler scheduler;
  const auto detached = [](TaskContext& context) { context.detach(); };
  const TaskId done = scheduler.submit(with_body(detached));
  const TaskId failed = scheduler.submit(with_body(detached));
  const TaskId stopped = scheduler.submit(with_body(detached));
  EXPECT_EQ(scheduler.run_ready(9), 3u);
  EXPECT_EQ(scheduler.state(done), TaskState::kRunning);
  EXPECT_TRUE(scheduler.complete(done));
  EXPECT_TRUE(scheduler.fail(failed, "illegal address"));
  EXPECT_TRUE(scheduler.cancel(stopped));
  EXPECT_EQ(scheduler.state(stopped), TaskState::kRunning);  // the device still works on it
  EXPECT_TRUE(scheduler.complete(stopped));
  EXPECT_EQ(scheduler.state(done), TaskState::kCompleted);
  EXPECT_EQ(scheduler.info(failed).reason, "illegal address");
  EXPECT_EQ(scheduler.state(stopped), TaskState::kCancelled);
}

TEST(RuntimeSchedulerRun, ADetachedTaskMayEndBeforeItsBodyReturns) {
  Scheduler scheduler;
  TaskId id = kNoTask;
  id = scheduler.submit(with_body([&](TaskContext& context) {
    EXPECT_FALSE(scheduler.complete(id));  // not detached yet
    context.detach();
    EXPECT_TRUE(scheduler.complete(id));
    EXPECT_FALSE(scheduler.complete(id));
    EXPECT_FALSE(scheduler.cancel(id));
    EXPECT_EQ(scheduler.state(id), TaskState::kRunning);
  }));
  const TaskId bad = scheduler.submit(with_body([](TaskContext& context) {
    context.detach();
    throw CustomError("launch failed");
  }));
  EXPECT_EQ(scheduler.run_until_idle(), 2u);
  EXPECT_EQ(scheduler.state(id), TaskState::kCompleted);
  EXPECT_THROW(scheduler.result(bad), CustomError);
}

TEST(RuntimeSchedulerRun, BodiesMaySubmitAndRunOthers) {
  Scheduler scheduler;
  int depth = 0;
  std::function<void(TaskContext&)> body = [&](TaskContext&) {
    if (++depth == 5) return;
    scheduler.submit(with_body(body));
    EXPECT_EQ(scheduler.run_until_idle(), 1u);  // returns although this body still runs
  };
  scheduler.submit(with_body(body));
  scheduler.run_until_idle();
  EXPECT_EQ(depth, 5);
}

TEST(RuntimeSchedulerRun, WhatABodyHoldsIsGoneWhenItsEndIsKnown) {
  Scheduler scheduler;
  const auto held = std::make_shared<int>(1);
  const TaskId run = scheduler.submit(with_body([held](TaskContext&) {}));
  const TaskId dropped = scheduler.submit(with_body([held](TaskContext&) {}));
  EXPECT_EQ(held.use_count(), 3);
  scheduler.cancel(dropped);
  EXPECT_EQ(held.use_count(), 2);
  scheduler.on_end(run, [&](const TaskInfo&) { EXPECT_EQ(held.use_count(), 1); });
  scheduler.run_until_idle();
  EXPECT_EQ(held.use_count(), 1);
}

TEST(RuntimeSchedulerRun, ObjectsOfTheCallerAreDestroyedWithoutTheLock) {
  SchedulerConfig config;
  config.max_ended_kept = 0;
  Scheduler scheduler(nullptr, config);
  int num_destroyed = 0;
  const auto asks = [&] {  // a destructor that calls the scheduler, as one that takes the GIL may
    return std::shared_ptr<void>(nullptr, [&](void*) {
      (void)scheduler.stats();
      ++num_destroyed;
    });
  };
  scheduler.cancel(scheduler.submit(with_body([held = asks()](TaskContext&) {})));
  scheduler.submit(with_body([held = asks()](TaskContext&) { throw held; }));
  scheduler.run_until_idle();
  const TaskId watched = scheduler.submit({});
  scheduler.on_end(watched, [held = asks()](const TaskInfo&) {});
  scheduler.cancel(watched);
  EXPECT_EQ(num_destroyed, 3);
}

// One that lives long is found among all that come and go.
TEST(RuntimeSchedulerRun, ATaskOutlivesManyThatAreForgotten) {
  SchedulerConfig config;
  config.max_ended_kept = 2;
  Scheduler scheduler(nullptr, config);
  const TaskId old = scheduler.submit({.name = "old", .memory_bytes = 5});
  ASSERT_TRUE(scheduler.start(old));
  for (int i = 0; i < 300; ++i) {
    const TaskId failing = scheduler.submit(
        {.name = "failing", .priority = 7, .bandwidth = 0.5, .body = [](TaskContext&) {
           throw 1;
         }});
    scheduler.submit({.dependencies = {failing}});
    scheduler.submit({.dependencies = {failing}});
    EXPECT_EQ(scheduler.run_ready(1), 1u);
    EXPECT_THROW((void)scheduler.info(failing), Error);  // three ended, two are kept
    const TaskId id = scheduler.submit({});
    const TaskInfo info = scheduler.info(id);
    EXPECT_EQ(info.id, id);
    EXPECT_TRUE(info.name.empty() && info.reason.empty());
    EXPECT_EQ(info.priority, 0);
    EXPECT_EQ(info.bandwidth, 0.0);
    EXPECT_EQ(info.exception, nullptr);
    EXPECT_EQ(info.first_cause, kNoTask);
    EXPECT_EQ(info.started_ns(), -1);
    EXPECT_EQ(info.state, TaskState::kAdmitted);
    ASSERT_TRUE(scheduler.start(id));
    EXPECT_TRUE(scheduler.complete(id));
  }
  EXPECT_EQ(scheduler.info(old).name, "old");
  EXPECT_EQ(scheduler.state(old), TaskState::kRunning);
  EXPECT_EQ(scheduler.snapshot().tasks.size(), 3u);
  EXPECT_TRUE(scheduler.complete(old));
}

// Twice as many tasks as the table begins with, in no order.
TEST(RuntimeSchedulerRun, ManyTasksAreFoundById) {
  Scheduler scheduler;
  std::vector<TaskId> ids;
  for (int i = 0; i < 1000; ++i) ids.push_back(scheduler.submit({.priority = i}));
  for (const int i : {999, 0, 512, 63, 64, 65}) {
    const TaskInfo info = scheduler.info(ids[static_cast<std::size_t>(i)]);
    EXPECT_EQ(info.priority, i);
    EXPECT_EQ(info.id, ids[static_cast<std::size_t>(i)]);
  }
  EXPECT_EQ(scheduler.snapshot().tasks.size(), 1000u);
  EXPECT_THROW((void)scheduler.info(1001), Error);
}

TEST(RuntimeSchedulerRun, CallbacksRunOnceWithoutTheLock) {
  Scheduler scheduler;
  int num_called = 0;
  const TaskId a = scheduler.submit({});
  const TaskId b = scheduler.submit({.dependencies = {a}});
  const auto count = [&](const TaskInfo& info) {
    ++num_called;
    EXPECT_TRUE(info.is_terminal());
    EXPECT_EQ(scheduler.state(info.id), info.state);  // would hang under the lock
    scheduler.submit({});
  };
  scheduler.on_end(a, count);
  scheduler.on_end(b, count);
  scheduler.on_end(b, [](const TaskInfo&) { throw CustomError("in a callback"); });
  scheduler.cancel(a);
  EXPECT_EQ(num_called, 2);
  scheduler.on_end(a, count);  // has ended: at once
  EXPECT_EQ(num_called, 3);
  EXPECT_EQ(scheduler.stats().num_callback_errors, 1u);
  EXPECT_THROW(scheduler.on_end(a, nullptr), Error);
}

TEST(RuntimeSchedulerRun, WaitTimesOut) {
  Scheduler scheduler;
  const TaskId id = scheduler.submit({});
  EXPECT_FALSE(scheduler.wait(id, 0ns));
  EXPECT_FALSE(scheduler.wait(id, 2ms));
  EXPECT_THROW(scheduler.result(id, 1ms), Error);
  scheduler.start(id);
  scheduler.complete(id);
  EXPECT_TRUE(scheduler.wait(id, 0ns));
  EXPECT_TRUE(scheduler.wait(id, std::chrono::nanoseconds::max()));
}

TEST(RuntimeSchedulerRun, AWaiterNoticesADeadlineByItself) {
  Scheduler scheduler;
  const TaskId first = scheduler.submit({.deadline_ns = scheduler.clock().now_ns() + 3'000'000});
  const TaskId second = scheduler.submit({.dependencies = {first}});
  const auto info = scheduler.wait(second, 10s);
  ASSERT_TRUE(info);
  EXPECT_EQ(info->state, TaskState::kFailed);
  EXPECT_EQ(info->first_cause, first);
}

TEST(RuntimeSchedulerRun, AForgottenTaskStillReachesItsWaiter) {
  SchedulerConfig config;
  config.max_ended_kept = 0;
  Scheduler scheduler(nullptr, config);
  const TaskId id = scheduler.submit({});
  std::atomic<bool> waiting = false;
  std::jthread waiter([&] {
    waiting = true;
    const auto info = scheduler.wait(id, 10s);
    ASSERT_TRUE(info);
    EXPECT_EQ(info->state, TaskState::kCancelled);
  });
  while (!waiting) std::this_thread::yield();
  std::this_thread::sleep_for(5ms);
  scheduler.cancel(id);
  waiter.join();
  scheduler.poll();
  EXPECT_THROW((void)scheduler.state(id), Error);
}

TEST(RuntimeSchedulerRun, WorkersServeUntilTheyAreStopped) {
  const auto ledger = std::make_shared<LimitLedger>(4);
  SchedulerConfig config;
  config.order.policy = SchedulePolicy::kPriority;
  Scheduler scheduler(ledger, config);
  std::atomic<int> num_inside = 0;
  std::atomic<int> most_inside = 0;
  std::vector<std::jthread> workers;
  for (int i = 0; i < 6; ++i)
    workers.emplace_back([&](const std::stop_token& stop) { scheduler.serve(stop); });
  std::vector<TaskId> ids;
  for (int i = 0; i < 300; ++i) {
    TaskSpec spec = with_body(
        [&](TaskContext&) {
          const int inside = ++num_inside;
          int seen = most_inside;
          while (seen < inside && !most_inside.compare_exchange_weak(seen, inside)) {
          }
          std::this_thread::yield();
          --num_inside;
        },
        ids.empty() ? std::vector<TaskId>{} : std::vector<TaskId>{ids[ids.size() / 2]}, 1);
    spec.priority = i % 3;
    ids.push_back(scheduler.submit(std::move(spec)));
  }
  for (const TaskId id : ids) EXPECT_EQ(scheduler.result(id, 20s).state, TaskState::kCompleted);
  workers.clear();
  EXPECT_LE(most_inside, 4);  // memory for four at once
  EXPECT_EQ(ledger->reserved_bytes(), 0u);
}

TEST(RuntimeSchedulerRun, ThreadsSubmitCancelWaitAndDie) {
  const auto ledger = std::make_shared<LimitLedger>(1000);
  SchedulerConfig config;
  config.max_ended_kept = 100'000;
  Scheduler scheduler(ledger, config);
  std::atomic<int> num_called = 0;
  std::vector<std::jthread> workers;
  for (int i = 0; i < 3; ++i)
    workers.emplace_back([&](const std::stop_token& stop) { scheduler.serve(stop); });
  constexpr int kClients = 4;
  constexpr int kTasks = 150;
  {
    std::vector<std::jthread> clients;
    for (std::uint64_t owner = 1; owner <= kClients; ++owner) {
      clients.emplace_back([&, owner] {
        std::mt19937_64 random(owner);
        std::vector<TaskId> mine;
        for (int i = 0; i < kTasks; ++i) {
          TaskSpec spec = with_body([i](TaskContext&) {
            if (i % 7 == 0) throw CustomError("every seventh");
          });
          spec.owner = owner;
          spec.memory_bytes = random() % 400;
          if (!mine.empty() && random() % 3 == 0)
            spec.dependencies = {mine[random() % mine.size()]};
          const TaskId id = scheduler.submit(std::move(spec));
          mine.push_back(id);
          scheduler.on_end(id, [&](const TaskInfo&) { ++num_called; });
          if (random() % 8 == 0) scheduler.cancel(mine[random() % mine.size()]);
          if (random() % 16 == 0) scheduler.wait(mine[random() % mine.size()], 5s);
          if (random() % 32 == 0) (void)scheduler.snapshot().text();
        }
        // Gone silently: someone else cleans up after it.
      });
    }
  }
  for (std::uint64_t owner = 1; owner <= kClients; ++owner) scheduler.cancel_owner(owner);
  for (const TaskInfo& task : scheduler.snapshot().tasks) scheduler.wait(task.id, 20s);
  workers.clear();
  const SchedulerStats stats = scheduler.stats();
  EXPECT_EQ(stats.num_waiting() + stats.count(TaskState::kRunning), 0u);
  EXPECT_EQ(stats.total_submitted, std::size_t{kClients} * kTasks);
  EXPECT_EQ(num_called, kClients * kTasks);
  EXPECT_EQ(ledger->reserved_bytes(), 0u);
  EXPECT_EQ(stats.reserved_memory_bytes, 0u);
}

TEST(RuntimeSchedulerRun, SeveralThreadsRunUntilIdleTogether) {
  Scheduler scheduler;
  std::atomic<int> num_run = 0;
  std::vector<TaskId> layer;
  for (int depth = 0; depth < 20; ++depth) {
    std::vector<TaskId> next;
    for (int i = 0; i < 5; ++i)
      next.push_back(scheduler.submit(with_body([&](TaskContext&) { ++num_run; }, layer)));
    layer = next;
  }
  std::atomic<std::size_t> total = 0;
  {
    std::vector<std::jthread> workers;
    for (int i = 0; i < 4; ++i) workers.emplace_back([&] { total += scheduler.run_until_idle(); });
  }
  EXPECT_EQ(num_run, 100);
  EXPECT_EQ(total, 100u);
}

}  // namespace
}  // namespace gpk::runtime
