// Task states, dependencies, order, memory and deadlines of the scheduler, driven by hand.
#include "runtime/scheduler.h"

#include <gtest/gtest.h>

#include <functional>

#include "runtime/error.h"

namespace gpk::runtime {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

Error::Kind kind_of(const std::function<void()>& call, std::string* message = nullptr) {
  try {
    call();
  } catch (const Error& error) {
    if (message != nullptr) *message = error.what();
    return error.kind();
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error::Kind::kState;
}

class RuntimeScheduler : public testing::Test {
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

TEST_F(RuntimeScheduler, UnknownDependenciesAreErrorsUnlessAllowed) {
  std::string message;
  EXPECT_EQ(kind_of([&] { submit(0, {7}); }, &message), Error::Kind::kValue);
  EXPECT_NE(message.find("7"), std::string::npos);
  EXPECT_EQ(kind_of([&] { scheduler->submit({.dependency_keys = {"load"}}); }, &message),
            Error::Kind::kValue);
  EXPECT_NE(message.find("'load'"), std::string::npos);
  EXPECT_EQ(scheduler->stats().total_submitted, 0u);
  // A task cannot name itself or a later one, so there are no cycles.
  EXPECT_EQ(kind_of([&] { submit(0, {1}); }), Error::Kind::kValue);

  SchedulerConfig config;
  config.unknown_dependency_is_met = true;
  make(100, config);
  const TaskId known = scheduler->submit({.key = "known"});
  const TaskId id =
      scheduler->submit({.dependencies = {99, known}, .dependency_keys = {"load", "known"}});
  expect_state(id, TaskState::kPending);
  EXPECT_EQ(scheduler->info(id).dependencies, std::vector<TaskId>{known});
}

TEST_F(RuntimeScheduler, KeysNameTasks) {
  const TaskId a = scheduler->submit({.key = "a"});
  EXPECT_EQ(scheduler->find("a"), a);
  EXPECT_EQ(scheduler->find("b"), kNoTask);
  EXPECT_EQ(kind_of([&] { scheduler->submit({.key = "a"}); }), Error::Kind::kValue);
  const TaskId b = scheduler->submit({.key = "b", .dependency_keys = {"a"}});
  expect_state(b, TaskState::kPending);
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
  EXPECT_EQ(scheduler->get_runnable(9), (std::vector<TaskId>{a, b}));
  EXPECT_EQ(scheduler->get_runnable(1), (std::vector<TaskId>{a}));
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
  EXPECT_EQ(scheduler->get_runnable(9), (std::vector<TaskId>{fast, middle, slow}));
  clock->advance_ns(990 * 100 + 1);  // 990 ns shorter is worth 99,000 ns of waiting, not more
  const TaskId late = sized(10);
  EXPECT_EQ(scheduler->get_runnable(9), (std::vector<TaskId>{fast, middle, slow, late}));
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
  EXPECT_EQ(scheduler->get_runnable(9), (std::vector<TaskId>{shorter, unknown, longer}));
}

TEST_F(RuntimeScheduler, PriorityCountsTheClassAndAges) {
  SchedulerConfig config;
  config.order.policy = SchedulePolicy::kPriority;
  config.order.aging_interval_ns = 10;
  make(100, config);
  const TaskId low = submit(0, {}, 0);
  const TaskId high = submit(0, {}, 5);
  const TaskId guaranteed = scheduler->submit({.qos = QosClass::kGuaranteed});
  EXPECT_EQ(scheduler->get_runnable(9), (std::vector<TaskId>{guaranteed, high, low}));
  clock->advance_ns(49);
  const TaskId just_in_time = submit(0, {}, 5);
  clock->advance_ns(2);
  const TaskId too_late = submit(0, {}, 5);
  EXPECT_EQ(scheduler->get_runnable(9),
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
  EXPECT_EQ(scheduler->get_runnable(9), (std::vector<TaskId>{high, low}));
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

// --- memory ------------------------------------------------------------------------------------

TEST_F(RuntimeScheduler, WhatDoesNotFitWaitsUntilMemoryIsFree) {
  make(100);
  const TaskId a = submit(70);
  const TaskId b = submit(50);
  expect_state(b, TaskState::kQueued);
  EXPECT_EQ(scheduler->info(b).wait_reason, WaitReason::kDeviceMemory);
  EXPECT_FALSE(scheduler->should_run(b));
  EXPECT_FALSE(scheduler->start(b));
  scheduler->start(a);
  scheduler->complete(a);
  expect_state(b, TaskState::kAdmitted);
  EXPECT_TRUE(scheduler->start(b));
}

TEST_F(RuntimeScheduler, WhatCanNeverFitIsAMemoryError) {
  make(100);
  ledger->set_account_limit("small", 10);
  std::string message;
  EXPECT_EQ(kind_of([&] { submit(101); }, &message), Error::Kind::kMemory);
  EXPECT_NE(message.find("101"), std::string::npos);
  EXPECT_EQ(kind_of([&] { scheduler->submit({.account = "small", .memory_bytes = 11}); }, &message),
            Error::Kind::kMemory);
  EXPECT_NE(message.find("'small'"), std::string::npos);
  EXPECT_EQ(kind_of([&] { scheduler->submit({.bandwidth = 1.5}); }), Error::Kind::kValue);
  EXPECT_EQ(scheduler->stats().total_submitted, 0u);
}

TEST_F(RuntimeScheduler, AFullAccountStopsNoOther) {
  make(100);
  ledger->set_account_limit("a", 30);
  const TaskId first = scheduler->submit({.account = "a", .memory_bytes = 30});
  std::vector<TaskId> stuck;
  for (int i = 0; i < 200; ++i)
    stuck.push_back(scheduler->submit({.account = "a", .memory_bytes = 30}));
  const TaskId other = scheduler->submit({.account = "b", .memory_bytes = 70});
  expect_state(first, TaskState::kAdmitted);
  expect_state(other, TaskState::kAdmitted);
  expect_state(stuck.front(), TaskState::kQueued);
  EXPECT_EQ(scheduler->info(stuck.front()).wait_reason, WaitReason::kAccountMemory);
  EXPECT_EQ(ledger->reserved_bytes("a"), 30u);
}

TEST_F(RuntimeScheduler, AFirstTaskTakesBackReservationsThatHaveNotStarted) {
  SchedulerConfig config;
  config.order.policy = SchedulePolicy::kPriority;
  make(100, config);
  const TaskId started = submit(20);
  scheduler->start(started);
  const TaskId low1 = submit(40);
  const TaskId low2 = submit(40);
  const TaskId urgent = submit(60, {}, 10);
  expect_state(urgent, TaskState::kAdmitted);
  expect_state(low1, TaskState::kQueued);
  expect_state(low2, TaskState::kQueued);
  expect_state(started, TaskState::kRunning);
  EXPECT_EQ(scheduler->info(low2).num_revoked, 1u);
  EXPECT_EQ(ledger->reserved_bytes(), 80u);
  // 81 could not be had even with all of it: nothing is taken.
  const TaskId huge = submit(81, {}, 20);
  expect_state(huge, TaskState::kQueued);
  expect_state(urgent, TaskState::kAdmitted);
}

TEST_F(RuntimeScheduler, TakingBackLeavesTheRestToOthers) {
  SchedulerConfig config;
  config.order.policy = SchedulePolicy::kPriority;
  make(100, config);
  const TaskId small = submit(10);
  const TaskId large = submit(90);
  const TaskId urgent = submit(50, {}, 10);
  expect_state(urgent, TaskState::kAdmitted);
  expect_state(small, TaskState::kAdmitted);  // the later `large` alone was enough
  expect_state(large, TaskState::kQueued);
}

TEST_F(RuntimeScheduler, ALargeTaskIsPassedAtMostMaxPassesTimes) {
  SchedulerConfig config;
  config.max_passes = 3;
  make(100, config);
  const TaskId holder = submit(60);
  scheduler->start(holder);
  const TaskId large = submit(80);
  std::vector<TaskId> small;
  for (int i = 0; i < 6; ++i) small.push_back(submit(10));
  for (int i = 0; i < 6; ++i)
    expect_state(small[i], i < 3 ? TaskState::kAdmitted : TaskState::kQueued);
  EXPECT_EQ(scheduler->info(large).num_passed, 3u);
  EXPECT_EQ(scheduler->info(small[4]).wait_reason, WaitReason::kHeldBack);
  const TaskId free = submit(0);  // takes nothing that the large one lacks
  expect_state(free, TaskState::kAdmitted);
  // No sooner than the running ones end does it fit, and then it is first.
  for (int i = 0; i < 3; ++i) {
    scheduler->start(small[i]);
    scheduler->complete(small[i]);
    expect_state(large, TaskState::kQueued);
  }
  scheduler->complete(holder);
  expect_state(large, TaskState::kAdmitted);
  expect_state(small[3], TaskState::kAdmitted);
}

TEST_F(RuntimeScheduler, NothingIsKeptForATaskThatWaitsForMemoryOfStrangers) {
  SchedulerConfig config;
  config.max_passes = 1;
  make(100, config);
  ASSERT_EQ(ledger->reserve(60, "stranger"), ReserveResult::kGranted);
  const TaskId large = submit(80);
  for (int i = 0; i < 10; ++i) {
    const TaskId small = submit(40);
    EXPECT_EQ(run_next(), small) << i;
    scheduler->complete(small);
  }
  expect_state(large, TaskState::kQueued);
  ledger->release(60, "stranger");
  scheduler->memory_changed();
  expect_state(large, TaskState::kAdmitted);
}

TEST_F(RuntimeScheduler, WhatAnAccountLacksIsKeptFromThatAccountOnly) {
  SchedulerConfig config;
  config.max_passes = 2;
  make(1000, config);
  ledger->set_account_limit("a", 100);
  const auto of = [&](const char* account, std::size_t bytes) {
    return scheduler->submit({.account = account, .memory_bytes = bytes});
  };
  const TaskId holder = of("a", 60);
  scheduler->start(holder);
  const TaskId large = of("a", 80);
  expect_state(of("a", 10), TaskState::kAdmitted);
  expect_state(of("a", 10), TaskState::kAdmitted);
  const TaskId third = of("a", 10);
  expect_state(third, TaskState::kQueued);
  EXPECT_EQ(scheduler->info(third).wait_reason, WaitReason::kHeldBack);
  for (int i = 0; i < 5; ++i) expect_state(of("b", 10), TaskState::kAdmitted);
  EXPECT_EQ(scheduler->info(large).num_passed, 2u);
}

TEST_F(RuntimeScheduler, BandwidthIsKeptForATaskThatWasPassedTooOften) {
  SchedulerConfig config;
  config.max_passes = 2;
  make(1000, config);
  const TaskId holder = scheduler->submit({.bandwidth = 0.6});
  scheduler->start(holder);
  const TaskId wide = scheduler->submit({.bandwidth = 0.8});
  for (int i = 0; i < 3; ++i) {
    const TaskId narrow = scheduler->submit({.bandwidth = 0.05});
    expect_state(narrow, i < 2 ? TaskState::kAdmitted : TaskState::kQueued);
  }
  const TaskId other = submit(10);  // memory is not what the wide one lacks
  expect_state(other, TaskState::kAdmitted);
  scheduler->complete(holder);
  expect_state(wide, TaskState::kAdmitted);
}

TEST_F(RuntimeScheduler, AnAccountTakesBackFromItselfOnly) {
  SchedulerConfig config;
  config.order.policy = SchedulePolicy::kPriority;
  make(100, config);
  ledger->set_account_limit("a", 50);
  const TaskId a = scheduler->submit({.account = "a", .memory_bytes = 50});
  const TaskId b = scheduler->submit({.account = "b", .memory_bytes = 50});
  const TaskId urgent = scheduler->submit({.account = "a", .priority = 10, .memory_bytes = 50});
  expect_state(urgent, TaskState::kAdmitted);
  expect_state(a, TaskState::kQueued);
  expect_state(b, TaskState::kAdmitted);
  EXPECT_EQ(scheduler->info(b).num_revoked, 0u);
}

TEST_F(RuntimeScheduler, WhatNeedsNothingNeverWaitsForMemory) {
  SchedulerConfig config;
  config.backfill_depth = 2;
  make(100, config);
  scheduler->start(submit(100));
  for (int i = 0; i < 10; ++i) submit(100);
  const TaskId light = submit(0);
  expect_state(light, TaskState::kAdmitted);
  EXPECT_EQ(run_next(), light);
  const TaskId gone = submit(0);
  scheduler->cancel(gone);
  EXPECT_EQ(run_next(), kNoTask);
}

// A task that was passed too often and lacks memory of its account must not stop other accounts,
// even when a smaller one of its account has just been refused for the device's memory.
TEST_F(RuntimeScheduler, TheReasonOfAKeptTaskIsExact) {
  SchedulerConfig config;
  config.order.policy = SchedulePolicy::kPriority;
  config.max_passes = 1;
  make(100, config);
  ledger->set_account_limit("a", 50);
  const auto of = [&](const char* account, std::size_t bytes, int priority = 0) {
    return scheduler->submit({.account = account, .priority = priority, .memory_bytes = bytes});
  };
  scheduler->start(of("a", 30));
  const TaskId passed = of("a", 30);
  scheduler->start(of("a", 10));
  EXPECT_EQ(scheduler->info(passed).num_passed, 1u);
  scheduler->start(of("c", 55));
  const TaskId first = of("a", 8, 10);
  EXPECT_EQ(scheduler->info(first).wait_reason, WaitReason::kDeviceMemory);
  EXPECT_EQ(scheduler->info(passed).wait_reason, WaitReason::kAccountMemory);
  expect_state(of("b", 3), TaskState::kAdmitted);
}

TEST_F(RuntimeScheduler, BandwidthCounts) {
  const TaskId a = scheduler->submit({.bandwidth = 0.7});
  const TaskId b = scheduler->submit({.bandwidth = 0.3});
  const TaskId c = scheduler->submit({.bandwidth = 0.1});
  expect_state(b, TaskState::kAdmitted);
  expect_state(c, TaskState::kQueued);
  EXPECT_EQ(scheduler->info(c).wait_reason, WaitReason::kBandwidth);
  EXPECT_DOUBLE_EQ(scheduler->stats().reserved_bandwidth, 1.0);
  scheduler->cancel(a);
  expect_state(c, TaskState::kAdmitted);
}

// Refuses, reports exhaustion or breaks, as told.
class FaultyLedger final : public MemoryLedger {
 public:
  enum class Mode { kGrant, kThrowMemory, kThrowOther };
  ReserveResult reserve(std::size_t bytes, std::string_view) override {
    if (mode == Mode::kThrowMemory) throw Error(Error::Kind::kMemory, "device is out of memory");
    if (mode == Mode::kThrowOther) throw std::runtime_error("device is lost");
    reserved += bytes;
    return ReserveResult::kGranted;
  }
  void release(std::size_t bytes, std::string_view) noexcept override { reserved -= bytes; }
  std::size_t device_bytes() const noexcept override { return 1000; }
  std::size_t capacity_bytes(std::string_view) const noexcept override { return 1000; }
  std::size_t available_bytes(std::string_view) const noexcept override { return 1000 - reserved; }
  Mode mode = Mode::kGrant;
  std::size_t reserved = 0;
};

TEST(RuntimeSchedulerFaults, OutOfMemoryDuringAdmissionIsAWait) {
  const auto ledger = std::make_shared<FaultyLedger>();
  Scheduler scheduler(ledger);
  ledger->mode = FaultyLedger::Mode::kThrowMemory;
  const TaskId id = scheduler.submit({.memory_bytes = 10});
  EXPECT_EQ(scheduler.state(id), TaskState::kQueued);
  ledger->mode = FaultyLedger::Mode::kGrant;
  EXPECT_EQ(scheduler.get_runnable(1), std::vector<TaskId>{id});
  scheduler.cancel(id);
  EXPECT_EQ(ledger->reserved, 0u);
}

TEST(RuntimeSchedulerFaults, ALedgerThatBreaksFailsTheTaskAndOthersGoOn) {
  const auto ledger = std::make_shared<FaultyLedger>();
  Scheduler scheduler(ledger);
  ledger->mode = FaultyLedger::Mode::kThrowOther;
  const TaskId broken = scheduler.submit({.memory_bytes = 10});
  EXPECT_EQ(scheduler.state(broken), TaskState::kFailed);
  EXPECT_THROW(scheduler.result(broken), std::runtime_error);
  const TaskId free = scheduler.submit({});
  EXPECT_EQ(scheduler.state(free), TaskState::kAdmitted);
  ledger->mode = FaultyLedger::Mode::kGrant;
  const TaskId fine = scheduler.submit({.memory_bytes = 10});
  EXPECT_TRUE(scheduler.start(fine));
  EXPECT_TRUE(scheduler.complete(fine));
  EXPECT_EQ(ledger->reserved, 0u);
}

TEST(RuntimeSchedulerFaults, ADestroyedSchedulerGivesEverythingBack) {
  const auto ledger = std::make_shared<LimitLedger>(100);
  {
    Scheduler scheduler(ledger);
    scheduler.start(scheduler.submit({.memory_bytes = 30}));
    scheduler.submit({.memory_bytes = 30});
    scheduler.submit({.memory_bytes = 90});
    EXPECT_EQ(ledger->reserved_bytes(), 60u);
  }
  EXPECT_EQ(ledger->reserved_bytes(), 0u);
}

// --- deadlines ---------------------------------------------------------------------------------

TEST_F(RuntimeScheduler, ADeadlineBeforeTheStartFailsTheTask) {
  make(100);
  const TaskId holder = submit(100);
  scheduler->start(holder);
  const TaskId late = scheduler->submit({.memory_bytes = 10, .deadline_ns = 50});
  const TaskId dependent = submit(0, {late});
  clock->set_ns(50);
  scheduler->poll();
  expect_state(late, TaskState::kQueued);  // at its deadline, not past it
  clock->set_ns(1050);
  scheduler->poll();
  expect_state(late, TaskState::kFailed);
  expect_state(dependent, TaskState::kFailed);
  EXPECT_TRUE(scheduler->info(late).missed_deadline);
  EXPECT_EQ(scheduler->info(late).reason, "deadline passed 1.00 us ago, before it started");
  EXPECT_EQ(scheduler->stats().num_missed_deadlines, 1u);
  const TaskId stillborn = scheduler->submit({.deadline_ns = 10});
  expect_state(stillborn, TaskState::kFailed);
}

TEST_F(RuntimeScheduler, ADeadlineWhileRunningIsReported) {
  const TaskId id = scheduler->submit({.deadline_ns = 50});
  const TaskId good = scheduler->submit({.deadline_ns = 500});
  scheduler->start(id);
  scheduler->start(good);
  EXPECT_TRUE(scheduler->overdue().empty());
  clock->set_ns(60);
  EXPECT_EQ(scheduler->overdue(), std::vector<TaskId>{id});
  EXPECT_TRUE(scheduler->complete(id));
  EXPECT_TRUE(scheduler->complete(good));
  expect_state(id, TaskState::kCompleted);
  EXPECT_TRUE(scheduler->info(id).missed_deadline);
  EXPECT_FALSE(scheduler->info(good).missed_deadline);
  EXPECT_EQ(scheduler->stats().num_missed_deadlines, 1u);
}

// --- admission ---------------------------------------------------------------------------------

TEST_F(RuntimeScheduler, AdmitExplainsItself) {
  make(100);
  const AdmissionOutcome first = scheduler->admit({.memory_bytes = 60});
  EXPECT_TRUE(first.decision.is_admitted());
  EXPECT_EQ(first.decision.reserved_memory_bytes, 60u);
  EXPECT_DOUBLE_EQ(first.decision.reserved_bandwidth(), 0.6);
  const AdmissionOutcome second = scheduler->admit({.memory_bytes = 60});
  EXPECT_TRUE(second.decision.is_queued());
  EXPECT_EQ(second.decision.details->reason_type, RejectReason::kInsufficientMemory);
  EXPECT_EQ(second.decision.queue_position, 1u);
  expect_state(second.id, TaskState::kQueued);
  const AdmissionOutcome never = scheduler->admit({.memory_bytes = 600});
  EXPECT_TRUE(never.decision.is_rejected());
  EXPECT_EQ(never.id, kNoTask);
  EXPECT_EQ(never.decision.reject_reason(), RejectReason::kInsufficientMemory);
  const AdmissionOutcome pending = scheduler->admit({.dependencies = {first.id}});
  EXPECT_TRUE(pending.decision.is_queued());
  EXPECT_NE(pending.decision.text().find("waits for task 1"), std::string::npos)
      << pending.decision.text();
  EXPECT_TRUE(scheduler->evaluate_admission({.dependencies = {first.id}}).is_queued());
  const AdmissionOutcome unknown = scheduler->admit({.dependencies = {77}});
  EXPECT_EQ(unknown.decision.reject_reason(), RejectReason::kUnsatisfiableDependencies);
  scheduler->cancel(first.id);
  const AdmissionOutcome broken = scheduler->admit({.dependencies = {first.id}});
  EXPECT_EQ(broken.decision.reject_reason(), RejectReason::kUnsatisfiableDependencies);
  EXPECT_EQ(scheduler->stats().total_submitted, 3u);
  const AdmissionStats stats = scheduler->admission_stats();
  EXPECT_EQ(stats.admitted_count, 1u);
  EXPECT_EQ(stats.queued_count, 2u);
  EXPECT_EQ(stats.rejected_count, 3u);
  EXPECT_EQ(stats.pending_count, 1u);
  EXPECT_EQ(stats.reserved_memory_bytes, 60u);
  EXPECT_EQ(stats.available_memory_bytes, 40u);
  EXPECT_DOUBLE_EQ(stats.reserved_bandwidth, 0.6);
}

TEST_F(RuntimeScheduler, AdmitRefusesWhenTooManyArePending) {
  SchedulerConfig config;
  config.max_pending_tasks = 2;
  config.enable_best_effort = false;
  make(100, config);
  EXPECT_TRUE(scheduler->admit({.memory_bytes = 60}).decision.is_admitted());
  EXPECT_EQ(scheduler->admit({.memory_bytes = 60}).decision.reject_reason(),
            RejectReason::kInsufficientMemory);
  EXPECT_TRUE(scheduler->admit({.memory_bytes = 40}).decision.is_admitted());
  EXPECT_EQ(scheduler->admit({}).decision.reject_reason(), RejectReason::kQueueFull);
}

TEST_F(RuntimeScheduler, WaitEstimatesComeFromMeasuredCompletions) {
  make(100);
  for (int i = 0; i < 3; ++i) {
    const TaskId id = submit(100);
    scheduler->start(id);
    clock->advance_ns(1000);
    scheduler->complete(id);
    clock->advance_ns(1'000'000);  // idle time must not count
  }
  const TaskId holder = submit(100);
  scheduler->start(holder);
  const AdmissionOutcome first = scheduler->admit({.memory_bytes = 50});
  const AdmissionOutcome second = scheduler->admit({.memory_bytes = 50});
  EXPECT_TRUE(first.decision.wait_is_measured);
  EXPECT_EQ(first.decision.estimated_wait_ns, 1000);
  EXPECT_EQ(second.decision.estimated_wait_ns, 2000);
  EXPECT_EQ(second.decision.queue_position, 2u);
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
    ids.push_back(scheduler->submit({.key = "k" + std::to_string(i)}));
    scheduler->start(ids.back());
    scheduler->complete(ids.back());
  }
  std::string message;
  EXPECT_EQ(kind_of([&] { (void)scheduler->info(ids[1]); }, &message), Error::Kind::kValue);
  EXPECT_NE(message.find("no longer kept"), std::string::npos);
  EXPECT_EQ(kind_of([&] { submit(0, {ids[0]}); }), Error::Kind::kValue);
  expect_state(ids[2], TaskState::kCompleted);
  EXPECT_EQ(scheduler->find("k0"), kNoTask);
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
