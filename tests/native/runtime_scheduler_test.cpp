// Task states, dependencies, order and housekeeping of the scheduler, driven by hand.
#include <cmath>

#include "runtime_scheduler_fixture.h"

namespace gpk::runtime {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

class RuntimeScheduler : public SchedulerFixture {};

TEST(RuntimeTask, OnlyTheDrawnTransitionsAreLegal) {
  using enum TaskState;
  const std::vector<std::pair<TaskState, TaskState>> legal = {
      {kPending, kQueued},   {kPending, kFailed},     {kPending, kCancelled}, {kQueued, kAdmitted},
      {kQueued, kFailed},    {kQueued, kCancelled},   {kAdmitted, kRunning},  {kAdmitted, kQueued},
      {kAdmitted, kFailed},  {kAdmitted, kCancelled}, {kRunning, kCompleted}, {kRunning, kFailed},
      {kRunning, kCancelled}};
  std::size_t num_legal = 0;
  for (std::size_t from = 0; from < kNumTaskStates; ++from) {
    for (std::size_t to = 0; to < kNumTaskStates; ++to) {
      const std::pair pair(static_cast<TaskState>(from), static_cast<TaskState>(to));
      const bool expected = std::find(legal.begin(), legal.end(), pair) != legal.end();
      EXPECT_EQ(can_transition(pair.first, pair.second), expected)
          << to_string(pair.first) << " -> " << to_string(pair.second);
      num_legal += expected ? 1 : 0;
    }
  }
  EXPECT_EQ(num_legal, legal.size());
}

TEST(RuntimeTask, SpecsOutOfRangeAreValueErrors) {
  const auto broken = [](auto change) {
    TaskSpec spec;
    change(spec);
    std::string message;
    EXPECT_EQ(kind_of([&] { check_task(spec); }, &message), Error::Kind::kValue);
    EXPECT_EQ(message.rfind("TaskSpec: ", 0), 0u) << message;
  };
  broken([](TaskSpec& s) { s.priority = kMaxTaskPriority + 1; });
  broken([](TaskSpec& s) { s.priority = -kMaxTaskPriority - 1; });
  broken([](TaskSpec& s) { s.estimated_ns = -1; });
  broken([](TaskSpec& s) { s.deadline_ns = -1; });
  broken([](TaskSpec& s) { s.bandwidth = -0.1; });
  broken([](TaskSpec& s) { s.bandwidth = std::nan(""); });
  EXPECT_NO_THROW(check_task({}));
}

TEST_F(RuntimeScheduler, RecordsEveryTransitionWithItsTime) {
  make(100);
  clock->set_ns(5);
  const TaskId id = submit(60);
  expect_state(id, TaskState::kAdmitted);
  EXPECT_EQ(ledger->reserved_bytes(), 60u);
  clock->set_ns(20);
  EXPECT_TRUE(scheduler->start(id));
  clock->set_ns(50);
  EXPECT_TRUE(scheduler->complete(id));
  const TaskInfo info = scheduler->info(id);
  EXPECT_EQ(info.submitted_ns(), 5);
  EXPECT_EQ(info.entered(TaskState::kAdmitted), 5);
  EXPECT_EQ(info.started_ns(), 20);
  EXPECT_EQ(info.ended_ns(), 50);
  EXPECT_EQ(info.wait_ns(999), 15);
  EXPECT_EQ(info.exec_ns(999), 30);
  EXPECT_EQ(info.entered(TaskState::kFailed), -1);
  const SchedulerStats stats = scheduler->stats();
  EXPECT_EQ(stats.total_submitted, 1u);
  EXPECT_EQ(stats.count(TaskState::kCompleted), 1u);
  EXPECT_EQ(stats.avg_wait_ns(), 15.0);
  EXPECT_EQ(stats.avg_exec_ns(), 30.0);
  EXPECT_EQ(stats.available_memory_bytes, 100u);
}

TEST_F(RuntimeScheduler, TransitionsCanBeTaken) {
  SchedulerConfig config;
  config.max_transitions_kept = 3;
  make(100, config);
  const TaskId id = submit(1);
  scheduler->start(id);
  clock->set_ns(9);
  scheduler->complete(id);
  const auto taken = scheduler->take_transitions();  // the oldest of four was dropped
  ASSERT_EQ(taken.size(), 3u);
  EXPECT_EQ(taken[0].from, TaskState::kQueued);
  EXPECT_EQ(taken[0].to, TaskState::kAdmitted);
  EXPECT_EQ(taken[2].to, TaskState::kCompleted);
  EXPECT_EQ(taken[2].time_ns, 9);
  EXPECT_EQ(taken[2].id, id);
  EXPECT_TRUE(scheduler->take_transitions().empty());
  EXPECT_EQ(scheduler->stats().num_transitions, 4u);
}

TEST_F(RuntimeScheduler, WrongStatesAnswerFalseAndUnknownIdsThrow) {
  const TaskId id = submit();
  EXPECT_FALSE(scheduler->complete(id));
  EXPECT_TRUE(scheduler->start(id));
  EXPECT_FALSE(scheduler->start(id));
  EXPECT_TRUE(scheduler->complete(id));
  EXPECT_FALSE(scheduler->complete(id));
  EXPECT_FALSE(scheduler->fail(id, "late"));
  EXPECT_FALSE(scheduler->cancel(id));
  EXPECT_FALSE(scheduler->should_run(id));
  expect_state(id, TaskState::kCompleted);
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { scheduler->start(99); }, [&] { scheduler->complete(99); },
           [&] { scheduler->fail(99, ""); }, [&] { scheduler->cancel(99); },
           [&] { (void)scheduler->state(99); }, [&] { (void)scheduler->info(0); },
           [&] { (void)scheduler->should_run(99); }, [&] { scheduler->wait(99); },
           [&] { scheduler->on_end(99, [](const TaskInfo&) {}); }}) {
    std::string message;
    EXPECT_EQ(kind_of(call, &message), Error::Kind::kValue);
    EXPECT_NE(message.find("is not known"), std::string::npos) << message;
  }
}

TEST_F(RuntimeScheduler, CancelInEveryState) {
  make(100);
  const TaskId running = submit(40);
  EXPECT_TRUE(scheduler->start(running));
  const TaskId admitted = submit(60);
  const TaskId queued = submit(50);
  const TaskId pending = submit(10, {queued});
  expect_state(running, TaskState::kRunning);
  expect_state(admitted, TaskState::kAdmitted);
  expect_state(queued, TaskState::kQueued);
  expect_state(pending, TaskState::kPending);
  for (const TaskId id : {pending, queued, admitted, running}) {
    EXPECT_TRUE(scheduler->cancel(id, "no longer needed"));
    expect_state(id, TaskState::kCancelled);
    EXPECT_EQ(scheduler->info(id).reason, "no longer needed");
    EXPECT_EQ(scheduler->info(id).reserved_memory_bytes, 0u);
    EXPECT_FALSE(scheduler->cancel(id));
  }
  EXPECT_EQ(ledger->reserved_bytes(), 0u);
  EXPECT_EQ(scheduler->stats().count(TaskState::kCancelled), 4u);
}

TEST_F(RuntimeScheduler, FailInEveryState) {
  make(100);
  const TaskId running = submit(40);
  scheduler->start(running);
  const TaskId admitted = submit(60);
  const TaskId queued = submit(50);
  const TaskId pending = submit(10, {queued});
  for (const TaskId id : {pending, queued, admitted, running}) {
    EXPECT_TRUE(scheduler->fail(id, "boom"));
    expect_state(id, TaskState::kFailed);
    EXPECT_EQ(scheduler->info(id).reason, "boom");
  }
  EXPECT_EQ(ledger->reserved_bytes(), 0u);
}

// --- dependencies ------------------------------------------------------------------------------

TEST_F(RuntimeScheduler, DependenciesGateTheStart) {
  const TaskId a = submit();
  const TaskId b = submit(0, {a, a});  // named twice counts once
  const TaskId c = submit(0, {a, b});
  expect_state(b, TaskState::kPending);
  EXPECT_FALSE(scheduler->start(b));
  EXPECT_FALSE(scheduler->should_run(c));
  EXPECT_EQ(run_next(), a);
  EXPECT_EQ(run_next(), kNoTask);
  scheduler->complete(a);
  expect_state(b, TaskState::kAdmitted);
  expect_state(c, TaskState::kPending);
  EXPECT_EQ(run_next(), b);
  scheduler->complete(b);
  EXPECT_EQ(run_next(), c);
  const TaskId late = submit(0, {a, b});  // both have completed
  expect_state(late, TaskState::kAdmitted);
}

TEST_F(RuntimeScheduler, UnknownDependenciesAreErrors) {
  std::string message;
  EXPECT_EQ(kind_of([&] { submit(0, {7}); }, &message), Error::Kind::kValue);
  EXPECT_NE(message.find("7"), std::string::npos);
  EXPECT_EQ(scheduler->stats().total_submitted, 0u);
  // A task cannot name itself or a later one, so there are no cycles.
  EXPECT_EQ(kind_of([&] { submit(0, {1}); }), Error::Kind::kValue);
}

TEST_F(RuntimeScheduler, AFailedDependencyFailsItsDependentsAndNamesTheFirstCause) {
  const TaskId root = scheduler->submit({.name = "load"});
  const TaskId middle = scheduler->submit({.name = "run", .dependencies = {root}});
  const TaskId leaf = scheduler->submit({.name = "store", .dependencies = {middle}});
  const TaskId both = submit(0, {root, leaf});
  const TaskId other = submit();
  scheduler->start(root);
  EXPECT_TRUE(scheduler->fail(root, "file not found"));
  for (const TaskId id : {middle, leaf, both}) {
    expect_state(id, TaskState::kFailed);
    const TaskInfo info = scheduler->info(id);
    EXPECT_EQ(info.first_cause, root);
    EXPECT_NE(info.reason.find("first cause: task 1 'load' failed: file not found"),
              std::string::npos)
        << info.reason;
  }
  EXPECT_NE(scheduler->info(leaf).reason.find("dependency task 2 'run' failed"), std::string::npos);
  expect_state(other, TaskState::kAdmitted);

  const TaskId late = submit(0, {leaf});
  expect_state(late, TaskState::kFailed);
  EXPECT_EQ(scheduler->info(late).first_cause, root);
  EXPECT_NE(scheduler->info(late).reason.find("file not found"), std::string::npos);
}

TEST_F(RuntimeScheduler, ACancelledDependencyFailsItsDependents) {
  const TaskId a = submit();
  const TaskId b = submit(0, {a});
  scheduler->cancel(a, "by hand");
  expect_state(b, TaskState::kFailed);
  EXPECT_EQ(scheduler->info(b).reason,
            "dependency task 1 cancelled; first cause: task 1 cancelled: by hand");
}

TEST_F(RuntimeScheduler, AVeryLongChainFailsWithoutRecursion) {
  const TaskId first = submit();
  TaskId last = first;
  for (int i = 0; i < 20'000; ++i) last = submit(0, {last});
  scheduler->fail(first, "boom");
  expect_state(last, TaskState::kFailed);
  EXPECT_EQ(scheduler->info(last).first_cause, first);
}

// --- order -------------------------------------------------------------------------------------

TEST_F(RuntimeScheduler, FifoIgnoresPriority) {
  const TaskId a = submit(0, {}, 0);
  const TaskId b = submit(0, {}, 10);
  EXPECT_EQ(run_next(), a);
  EXPECT_EQ(run_next(), b);
}

TEST_F(RuntimeScheduler, SjfTakesTheShortestFirst) {
  SchedulerConfig config;
  config.order.policy = SchedulePolicy::kSjf;
  make(100, config);
  const auto sized = [&](std::int64_t ns) { return scheduler->submit({.estimated_ns = ns}); };
  const TaskId slow = sized(1000);
  const TaskId fast = sized(10);
  const TaskId middle = sized(100);
  clock->advance_ns(990 * 100 + 1);  // 990 ns shorter is worth 99,000 ns of waiting, not more
  const TaskId late = sized(10);
  EXPECT_EQ(scheduler->start_runnable(9), (std::vector<TaskId>{fast, middle, slow, late}));
}

TEST_F(RuntimeScheduler, SjfTakesTheMeasuredMeanForAnUnknownEstimate) {
  SchedulerConfig config;
  config.order.policy = SchedulePolicy::kSjf;
  config.order.sjf_patience = 0;
  make(100, config);
  const TaskId measured = scheduler->submit({.estimated_ns = 1});
  scheduler->start(measured);
  clock->advance_ns(500);
  scheduler->complete(measured);
  const TaskId longer = scheduler->submit({.estimated_ns = 600});
  const TaskId unknown = scheduler->submit({});
  const TaskId shorter = scheduler->submit({.estimated_ns = 400});
  EXPECT_EQ(scheduler->start_runnable(9), (std::vector<TaskId>{shorter, unknown, longer}));
}

TEST_F(RuntimeScheduler, PriorityCountsTheClassAndAges) {
  SchedulerConfig config;
  config.order.policy = SchedulePolicy::kPriority;
  config.order.aging_interval_ns = 10;
  make(100, config);
  const TaskId low = submit(0, {}, 0);
  const TaskId high = submit(0, {}, 5);
  const TaskId guaranteed = scheduler->submit({.qos = QosClass::kGuaranteed});
  clock->advance_ns(49);
  const TaskId just_in_time = submit(0, {}, 5);
  clock->advance_ns(2);
  const TaskId too_late = submit(0, {}, 5);
  EXPECT_EQ(scheduler->start_runnable(9),
            (std::vector<TaskId>{guaranteed, high, just_in_time, low, too_late}));
}

TEST_F(RuntimeScheduler, StrictPriorityDoesNotAge) {
  SchedulerConfig config;
  config.order.policy = SchedulePolicy::kPriority;
  config.order.aging_interval_ns = 0;
  make(100, config);
  const TaskId low = submit(0, {}, 0);
  clock->advance_ns(1'000'000'000'000);
  const TaskId high = submit(0, {}, 1);
  EXPECT_EQ(scheduler->start_runnable(9), (std::vector<TaskId>{high, low}));
}

TEST(RuntimeSchedulerConfig, NumbersOutOfRangeAreValueErrors) {
  SchedulerConfig config;
  config.order.aging_interval_ns = -1;
  EXPECT_EQ(kind_of([&] { Scheduler scheduler(nullptr, config); }), Error::Kind::kValue);
  config = {};
  config.order.sjf_patience = 1'000'000;
  EXPECT_EQ(kind_of([&] { Scheduler scheduler(nullptr, config); }), Error::Kind::kValue);
  config = {};
  config.total_bandwidth = -1;
  EXPECT_EQ(kind_of([&] { Scheduler scheduler(nullptr, config); }), Error::Kind::kValue);
}

// --- housekeeping ------------------------------------------------------------------------------

TEST_F(RuntimeScheduler, TheTasksOfADeadClientCanBeCancelledTogether) {
  make(100);
  const TaskId running = scheduler->submit({.owner = 7, .memory_bytes = 60});
  scheduler->start(running);
  const TaskId mine = scheduler->submit({.owner = 7, .memory_bytes = 60});
  const TaskId dependent = scheduler->submit({.owner = 7, .dependencies = {mine}});
  const TaskId foreign = scheduler->submit({.owner = 8, .memory_bytes = 100});
  const TaskId foreign_dependent = scheduler->submit({.owner = 8, .dependencies = {mine}});
  EXPECT_EQ(scheduler->cancel_owner(7), 3u);
  for (const TaskId id : {running, mine, dependent}) expect_state(id, TaskState::kCancelled);
  expect_state(foreign_dependent, TaskState::kFailed);
  expect_state(foreign, TaskState::kAdmitted);
  EXPECT_EQ(scheduler->info(running).reason, "its owner is gone");
  EXPECT_EQ(scheduler->cancel_owner(7), 0u);
}

TEST_F(RuntimeScheduler, OldEndedTasksAreForgotten) {
  SchedulerConfig config;
  config.max_ended_kept = 2;
  make(100, config);
  std::vector<TaskId> ids;
  for (int i = 0; i < 4; ++i) {
    ids.push_back(submit());
    scheduler->start(ids.back());
    scheduler->complete(ids.back());
  }
  std::string message;
  EXPECT_EQ(kind_of([&] { (void)scheduler->info(ids[1]); }, &message), Error::Kind::kValue);
  EXPECT_NE(message.find("no longer kept"), std::string::npos);
  EXPECT_EQ(kind_of([&] { submit(0, {ids[0]}); }), Error::Kind::kValue);
  expect_state(ids[2], TaskState::kCompleted);
  EXPECT_EQ(scheduler->snapshot().tasks.size(), 2u);
  EXPECT_EQ(scheduler->stats().count(TaskState::kCompleted), 4u);
}

TEST_F(RuntimeScheduler, ClearCancelsAndForgetsAll) {
  make(100);
  const TaskId a = submit(60);
  scheduler->start(a);
  submit(60);
  submit(0, {a});
  scheduler->clear();
  EXPECT_EQ(ledger->reserved_bytes(), 0u);
  EXPECT_TRUE(scheduler->snapshot().tasks.empty());
  EXPECT_EQ(scheduler->stats().total_submitted, 0u);
  EXPECT_EQ(submit(), 4u);  // ids are never used twice
}

TEST_F(RuntimeScheduler, SnapshotTellsWhyEachWaits) {
  SchedulerConfig config;
  config.order.policy = SchedulePolicy::kPriority;
  make(4 * kMiB, config);
  ledger->set_account_limit("tenant", kMiB);
  const TaskId running = scheduler->submit({.name = "train", .memory_bytes = 2 * kMiB});
  scheduler->start(running);
  scheduler->submit({.name = "big", .memory_bytes = 3 * kMiB});
  scheduler->submit({.name = "ok", .account = "tenant", .memory_bytes = kMiB});
  scheduler->submit({.name = "full", .account = "tenant", .memory_bytes = kMiB});
  scheduler->submit({.name = "after", .dependencies = {running}});
  clock->set_ns(1'500'000);
  const SchedulerSnapshot snapshot = scheduler->snapshot();
  ASSERT_EQ(snapshot.tasks.size(), 5u);
  ASSERT_EQ(snapshot.queue.size(), 4u);
  EXPECT_EQ(snapshot.queue[0].label, "big");
  EXPECT_EQ(snapshot.queue[0].text, "needs 3.00 MiB, the device has 1.00 MiB of 4.00 MiB left");
  EXPECT_EQ(snapshot.queue[1].reason, WaitReason::kStart);
  EXPECT_EQ(snapshot.queue[2].text, "needs 1.00 MiB, its account has 0 B of 1.00 MiB left");
  EXPECT_EQ(snapshot.queue[3].text, "waits for task 1 'train'");
  ASSERT_EQ(snapshot.reservations.size(), 2u);
  EXPECT_EQ(snapshot.reservations[1].account, "tenant");
  EXPECT_EQ(snapshot.reservations[1].reserved_bytes, kMiB);
  EXPECT_EQ(snapshot.reservations[1].num_queued, 1u);
  const std::string text = snapshot.text();
  for (const char* part : {"scheduler (priority): 5 submitted", "1 running", "train", "1.50 ms",
                           "waits for task 1 'train'", "tenant", "2.00 MiB"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
}

TEST_F(RuntimeScheduler, TheSameCallsGiveTheSameAnswers) {
  std::string first;
  for (int round = 0; round < 2; ++round) {
    SchedulerConfig config;
    config.order.policy = SchedulePolicy::kPriority;
    clock = std::make_shared<ManualClock>();
    make(1000, config);
    std::string log;
    for (int i = 0; i < 300; ++i) {
      scheduler->submit({.name = std::to_string(i),
                         .account = i % 3 == 0 ? "x" : "y",
                         .priority = i * 7 % 5,
                         .memory_bytes = static_cast<std::size_t>(i * 37 % 400)});
      clock->advance_ns(1000);
      if (i % 2 == 0)
        for (const TaskId id : scheduler->start_runnable(1)) log += std::to_string(id) + " ";
      if (i % 5 == 0)
        for (const TaskInfo& task : scheduler->snapshot().tasks)
          if (task.state == TaskState::kRunning) scheduler->complete(task.id);
    }
    log += scheduler->snapshot().text();
    if (round == 0) first = log;
    EXPECT_EQ(log, first);
  }
}

}  // namespace
}  // namespace gpk::runtime
