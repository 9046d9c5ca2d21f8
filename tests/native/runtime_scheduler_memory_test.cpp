// Memory, bandwidth, deadlines and admission of the scheduler, driven by hand.
#include "runtime_scheduler_fixture.h"

namespace gpk::runtime {
namespace {

class RuntimeSchedulerMemory : public SchedulerFixture {};

TEST_F(RuntimeSchedulerMemory, WhatDoesNotFitWaitsUntilMemoryIsFree) {
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

TEST_F(RuntimeSchedulerMemory, WhatCanNeverFitIsAMemoryError) {
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

TEST_F(RuntimeSchedulerMemory, AFullAccountStopsNoOther) {
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

TEST_F(RuntimeSchedulerMemory, AFirstTaskTakesBackReservationsThatHaveNotStarted) {
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

TEST_F(RuntimeSchedulerMemory, TakingBackLeavesTheRestToOthers) {
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

// What one task takes back and does not need goes to a better one that had been refused.
TEST_F(RuntimeSchedulerMemory, TheRestOfWhatIsTakenBackGoesToTheBest) {
  SchedulerConfig config;
  config.order.policy = SchedulePolicy::kPriority;
  make(100, config);
  const auto of = [&](const char* account, std::size_t bytes, int priority) {
    return scheduler->submit({.account = account, .priority = priority, .memory_bytes = bytes});
  };
  scheduler->start(of("c", 30, 0));
  const TaskId holder = of("c", 60, 0);
  const TaskId huge = of("a", 90, 50);    // cannot be had
  const TaskId better = of("a", 40, 40);  // not the first of its account
  const TaskId good = of("b", 20, 30);
  expect_state(huge, TaskState::kQueued);
  expect_state(good, TaskState::kAdmitted);
  expect_state(better, TaskState::kAdmitted);
  expect_state(holder, TaskState::kQueued);
}

TEST_F(RuntimeSchedulerMemory, AStartOutOfTurnLeavesTheRestToOthersToo) {
  make(100);
  ASSERT_EQ(ledger->reserve(30, "stranger"), ReserveResult::kGranted);
  const TaskId large = submit(80);
  const TaskId middle = submit(40);
  const TaskId small = submit(20);
  expect_state(large, TaskState::kQueued);
  expect_state(small, TaskState::kAdmitted);
  ledger->release(30, "stranger");  // and the scheduler is not notified
  EXPECT_TRUE(scheduler->start(large));
  expect_state(middle, TaskState::kQueued);
  expect_state(small, TaskState::kAdmitted);
}

TEST_F(RuntimeSchedulerMemory, ALargeTaskIsPassedAtMostMaxPassesTimes) {
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

TEST_F(RuntimeSchedulerMemory, NothingIsKeptForATaskThatWaitsForMemoryOfStrangers) {
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
  scheduler->poll();
  expect_state(large, TaskState::kAdmitted);
}

TEST_F(RuntimeSchedulerMemory, WhatAnAccountLacksIsKeptFromThatAccountOnly) {
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

TEST_F(RuntimeSchedulerMemory, BandwidthIsKeptForATaskThatWasPassedTooOften) {
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

TEST_F(RuntimeSchedulerMemory, AnAccountTakesBackFromItselfOnly) {
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

TEST_F(RuntimeSchedulerMemory, WhatNeedsNothingNeverWaitsForMemory) {
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
TEST_F(RuntimeSchedulerMemory, TheReasonOfAKeptTaskIsExact) {
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

TEST_F(RuntimeSchedulerMemory, BandwidthCounts) {
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

// Refuses, reports exhaustion or throws, as configured.
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
  EXPECT_EQ(scheduler.start_runnable(1), std::vector<TaskId>{id});
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

TEST_F(RuntimeSchedulerMemory, ADeadlineBeforeTheStartFailsTheTask) {
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

TEST_F(RuntimeSchedulerMemory, ADeadlineWhileRunningIsReported) {
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

TEST_F(RuntimeSchedulerMemory, AdmitExplainsItself) {
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
  const SchedulerStats stats = scheduler->stats();
  EXPECT_EQ(stats.num_waiting(), 1u);
  EXPECT_EQ(stats.reserved_memory_bytes, 60u);
  EXPECT_EQ(stats.available_memory_bytes, 40u);
  EXPECT_DOUBLE_EQ(stats.reserved_bandwidth, 0.6);
}

TEST_F(RuntimeSchedulerMemory, AdmitRefusesWhenTooManyArePending) {
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

TEST_F(RuntimeSchedulerMemory, WaitEstimatesComeFromMeasuredCompletions) {
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

}  // namespace
}  // namespace gpk::runtime
