// Random operations on the scheduler against a simple model of what must hold after each.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>
#include <set>

#include "runtime/scheduler/scheduler.h"

namespace gpk::runtime {
namespace {

bool long_run() { return std::getenv("GPK_TEST_LONG") != nullptr; }

struct ModelTask {
  TaskState state = TaskState::kPending;
  std::size_t bytes = 0;
  SharePpb bandwidth_ppb = 0;
  std::string account;
  std::vector<TaskId> dependencies;
};

// Replays the transitions the scheduler reports and checks every promise on the way.
class Model {
 public:
  Model(Scheduler& scheduler, LimitLedger& ledger, std::size_t total_bytes,
        std::map<std::string, std::size_t> limits)
      : scheduler_(scheduler),
        ledger_(ledger),
        total_bytes_(total_bytes),
        limits_(std::move(limits)) {}

  void add(TaskId id, ModelTask task) { tasks_.emplace(id, std::move(task)); }

  void replay() {
    for (const TaskTransition& step : scheduler_.take_transitions()) {
      ModelTask& task = tasks_.at(step.id);
      ASSERT_EQ(task.state, step.from);
      ASSERT_TRUE(can_transition(step.from, step.to));
      ASSERT_GE(step.time_ns, last_ns_);
      last_ns_ = step.time_ns;
      task.state = step.to;
      seen.insert({step.from, step.to});
      if (step.to == TaskState::kAdmitted) ++num_admissions;
      hold(task, step);
      ASSERT_LE(held_bytes_, total_bytes_);
      ASSERT_LE(held_ppb_, 1'000'000'000);
      const auto limit = limits_.find(task.account);
      if (limit != limits_.end()) {
        ASSERT_LE(held_by_[task.account], limit->second);
      }
      check_dependencies(task);
    }
  }

  void check_totals() {
    ASSERT_EQ(ledger_.reserved_bytes(), held_bytes_);
    for (const auto& [account, bytes] : held_by_)
      ASSERT_EQ(ledger_.reserved_bytes(account), bytes) << account;
    const SchedulerStats stats = scheduler_.stats();
    ASSERT_EQ(stats.reserved_memory_bytes, held_bytes_);
    ASSERT_EQ(stats.reserved_bandwidth, share_of_ppb(held_ppb_));
    std::array<std::size_t, kNumTaskStates> counts = ended_;
    for (const auto& [id, task] : tasks_) ++counts[static_cast<std::size_t>(task.state)];
    ASSERT_EQ(stats.num_in_state, counts);
  }

  // With an unbounded search nothing that fits may wait.
  void check_nothing_idle() {
    for (const auto& [id, task] : tasks_) {
      if (task.state != TaskState::kQueued) continue;
      const bool fits = task.bytes <= ledger_.available_bytes(task.account) &&
                        task.bandwidth_ppb <= 1'000'000'000 - held_ppb_;
      ASSERT_FALSE(fits) << "task " << id << " waits though it fits";
    }
  }

  std::vector<TaskId> in_state(TaskState state) const {
    std::vector<TaskId> ids;
    for (const auto& [id, task] : tasks_)
      if (task.state == state) ids.push_back(id);
    return ids;
  }
  std::vector<TaskId> all() const {
    std::vector<TaskId> ids;
    for (const auto& [id, task] : tasks_) ids.push_back(id);
    return ids;
  }
  // Drops ended tasks that nothing depends on; their states stay counted.
  void forget_ended(std::size_t keep) {
    for (auto it = tasks_.begin(); it != tasks_.end() && tasks_.size() > keep;) {
      if (!is_terminal(it->second.state)) {
        ++it;
        continue;
      }
      ++ended_[static_cast<std::size_t>(it->second.state)];
      forgotten_[it->first] = it->second.state;
      it = tasks_.erase(it);
    }
    while (forgotten_.size() > 1000) forgotten_.erase(forgotten_.begin());
  }

  std::set<std::pair<TaskState, TaskState>> seen;
  std::size_t num_admissions = 0;

 private:
  void hold(const ModelTask& task, const TaskTransition& step) {
    const auto holds = [](TaskState s) {
      return s == TaskState::kAdmitted || s == TaskState::kRunning;
    };
    if (!holds(step.from) && holds(step.to)) {
      held_bytes_ += task.bytes;
      held_by_[task.account] += task.bytes;
      held_ppb_ += task.bandwidth_ppb;
    } else if (holds(step.from) && !holds(step.to)) {
      held_bytes_ -= task.bytes;
      held_by_[task.account] -= task.bytes;
      held_ppb_ -= task.bandwidth_ppb;
    }
  }

  TaskState state_of(TaskId id) const {
    const auto found = tasks_.find(id);
    return found != tasks_.end() ? found->second.state : forgotten_.at(id);
  }

  void check_dependencies(const ModelTask& task) {
    if (task.state == TaskState::kFailed || task.state == TaskState::kCancelled) return;
    for (const TaskId id : task.dependencies) ASSERT_EQ(state_of(id), TaskState::kCompleted);
  }

  Scheduler& scheduler_;
  LimitLedger& ledger_;
  const std::size_t total_bytes_;
  const std::map<std::string, std::size_t> limits_;
  std::map<TaskId, ModelTask> tasks_;
  std::map<TaskId, TaskState> forgotten_;
  std::array<std::size_t, kNumTaskStates> ended_{};
  std::size_t held_bytes_ = 0;
  std::map<std::string, std::size_t> held_by_;
  SharePpb held_ppb_ = 0;
  std::int64_t last_ns_ = 0;
};

class RandomRun {
 public:
  RandomRun(SchedulePolicy policy, std::uint64_t seed, bool bounded)
      : random_(seed), bounded_(bounded) {
    SchedulerConfig config;
    config.order.policy = policy;
    config.order.aging_interval_ns = 50;
    config.max_passes = bounded ? 4 : 1'000'000'000;
    config.backfill_depth = bounded ? 3 : 1'000'000'000;
    config.max_ended_kept = 5000;
    config.max_transitions_kept = 100'000;
    ledger_ = std::make_shared<LimitLedger>(kTotal);
    const std::map<std::string, std::size_t> limits = {{"a", 300}, {"b", 500}};
    for (const auto& [account, bytes] : limits) ledger_->set_account_limit(account, bytes);
    scheduler_ = std::make_unique<Scheduler>(ledger_, config, clock_);
    model_ = std::make_unique<Model>(*scheduler_, *ledger_, kTotal, limits);
  }

  // Until so many operations and admissions were made.
  void run(std::size_t num_steps) {
    for (std::size_t i = 0; i < num_steps; ++i) {
      step();
      model_->replay();
      if (testing::Test::HasFatalFailure()) return;
      if (i % 8 == 0) {
        model_->check_totals();
        if (!bounded_) model_->check_nothing_idle();
        if (testing::Test::HasFatalFailure()) return;
      }
      if (i % 64 == 0) model_->forget_ended(60);
    }
    drain();
  }

  Model& model() { return *model_; }

 private:
  static constexpr std::size_t kTotal = 1000;

  void submit() {
    TaskSpec spec;
    const char* accounts[] = {"a", "b", "c", ""};
    spec.account = accounts[random_() % 4];
    spec.owner = random_() % 3;
    spec.priority = static_cast<int>(random_() % 5);
    spec.qos = static_cast<QosClass>(random_() % 3);
    spec.estimated_ns = static_cast<std::int64_t>(random_() % 100);
    spec.memory_bytes = random_() % 10 == 0 ? 0 : random_() % 300;
    spec.bandwidth = random_() % 2 == 0 ? 0.0 : static_cast<double>(random_() % 60) / 100;
    if (random_() % 8 == 0)
      spec.deadline_ns = clock_->now_ns() + static_cast<std::int64_t>(random_() % 200);
    const std::vector<TaskId> known = model_->all();
    for (std::size_t i = random_() % 3; i > 0 && !known.empty(); --i) {
      // The latest ones: those still alive.
      const std::size_t span = std::min<std::size_t>(known.size(), 10);
      spec.dependencies.push_back(known[known.size() - 1 - random_() % span]);
    }
    ModelTask task;
    task.bytes = spec.memory_bytes;
    task.account = spec.account;
    task.bandwidth_ppb = share_ppb(spec.bandwidth, "");
    task.dependencies = spec.dependencies;
    model_->add(scheduler_->submit(std::move(spec)), std::move(task));
  }

  TaskId pick(TaskState state) {
    const std::vector<TaskId> ids = model_->in_state(state);
    return ids.empty() ? kNoTask : ids[random_() % ids.size()];
  }

  void step() {
    clock_->advance_ns(static_cast<std::int64_t>(random_() % 20));
    const auto some_state = static_cast<TaskState>(random_() % 4);
    switch (random_() % 16) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4: submit(); break;
      case 5:
      case 6:
      case 14: scheduler_->start_runnable(1 + random_() % 3); break;
      case 7:
        if (const TaskId id = pick(some_state)) scheduler_->start(id);
        break;
      case 8:
      case 9:
      case 10:
      case 11:
        if (const TaskId id = pick(TaskState::kRunning)) {
          ASSERT_TRUE(scheduler_->complete(id) || scheduler_->info(id).is_terminal());
        }
        break;
      case 12:
        if (const TaskId id = pick(some_state)) scheduler_->fail(id, "random");
        break;
      case 13:
        if (const TaskId id = pick(some_state)) scheduler_->cancel(id, "random");
        break;
      case 15:
        if (random_() % 20 == 0) scheduler_->cancel_owner(random_() % 3);
        break;
    }
  }

  void drain() {
    for (int i = 0; i < 100'000 && scheduler_->stats().num_waiting() > 0; ++i) {
      clock_->advance_ns(1);
      for (const TaskId id : scheduler_->start_runnable(100)) scheduler_->complete(id);
      model_->replay();
      for (const TaskId id : model_->in_state(TaskState::kRunning)) scheduler_->complete(id);
      model_->replay();
      if (testing::Test::HasFatalFailure()) return;
    }
    for (const TaskId id : model_->in_state(TaskState::kRunning)) scheduler_->complete(id);
    model_->replay();
    const SchedulerStats stats = scheduler_->stats();
    EXPECT_EQ(stats.num_waiting() + stats.count(TaskState::kRunning), 0u);
    EXPECT_EQ(stats.reserved_memory_bytes, 0u);
    EXPECT_EQ(stats.reserved_bandwidth, 0.0);
    EXPECT_EQ(ledger_->reserved_bytes(), 0u);
    EXPECT_TRUE(scheduler_->snapshot().reservations.empty());
  }

  std::mt19937_64 random_;
  const bool bounded_;
  const std::shared_ptr<ManualClock> clock_ = std::make_shared<ManualClock>();
  std::shared_ptr<LimitLedger> ledger_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<Model> model_;
};

TEST(RuntimeSchedulerProperty, RandomOperationsKeepEveryPromise) {
  std::set<std::pair<TaskState, TaskState>> seen;
  std::size_t num_admissions = 0;
  const std::size_t wanted = long_run() ? 10'000'000 : 8'000;
  for (std::uint64_t seed = 1; num_admissions < wanted; ++seed) {
    for (const auto policy :
         {SchedulePolicy::kFifo, SchedulePolicy::kSjf, SchedulePolicy::kPriority}) {
      RandomRun run(policy, seed, seed % 2 == 0);
      run.run(long_run() ? 100'000 : 3'000);
      seen.insert(run.model().seen.begin(), run.model().seen.end());
      num_admissions += run.model().num_admissions;
      if (HasFatalFailure()) FAIL() << "seed " << seed << ", " << to_string(policy);
    }
  }
  EXPECT_EQ(seen.size(), 13u);  // every legal transition was made
  RecordProperty("admissions", static_cast<int>(num_admissions));
}

// An endless stream of higher-priority tasks: how long can one low-priority task wait?
struct Flood {
  SchedulePolicy policy;
  int priority;               // of the flood; the poor one has 0
  std::int64_t estimated_ns;  // of the flood; the poor one has 1000
  std::size_t bytes;          // of the flood; the poor one has all of the memory
};

std::int64_t wait_under_flood(const Flood& flood, std::int64_t aging_interval_ns) {
  SchedulerConfig config;
  config.order.policy = flood.policy;
  config.order.aging_interval_ns = aging_interval_ns;
  config.order.sjf_patience = aging_interval_ns == 0 ? 0 : 10;
  config.max_passes = 20;
  const auto clock = std::make_shared<ManualClock>();
  Scheduler scheduler(std::make_shared<LimitLedger>(100), config, clock);
  const auto feed = [&] {
    scheduler.submit({.priority = flood.priority,
                      .memory_bytes = flood.bytes,
                      .estimated_ns = flood.estimated_ns});
  };
  for (int i = 0; i < 4; ++i) feed();
  std::deque<TaskId> running;
  for (const TaskId id : scheduler.start_runnable(2)) running.push_back(id);
  const TaskId poor = scheduler.submit({.memory_bytes = 100, .estimated_ns = 1000});
  for (int i = 0; i < 5'000; ++i) {
    clock->advance_ns(10);
    feed();
    if (!running.empty()) {
      scheduler.complete(running.front());
      running.pop_front();
    }
    for (const TaskId id : scheduler.start_runnable(2 - running.size())) {
      if (id == poor) return scheduler.info(poor).wait_ns(clock->now_ns());
      running.push_back(id);
    }
  }
  return -1;  // starved
}

TEST(RuntimeSchedulerProperty, NobodyStarves) {
  const std::int64_t by_priority = wait_under_flood({SchedulePolicy::kPriority, 50, 10, 50}, 100);
  EXPECT_GT(by_priority, 50 * 100 - 100);       // it does yield to better ones,
  EXPECT_LT(by_priority, 50 * 100 + 10 * 100);  // but only as long as the rule allows
  const std::int64_t by_length = wait_under_flood({SchedulePolicy::kSjf, 0, 10, 50}, 100);
  EXPECT_GT(by_length, 990 * 10 - 100);
  EXPECT_LT(by_length, 990 * 10 + 10 * 100);
  const std::int64_t by_size = wait_under_flood({SchedulePolicy::kFifo, 0, 10, 50}, 100);
  EXPECT_GE(by_size, 0);
  EXPECT_LT(by_size, 40 * 10);  // max_passes, then the memory is kept for it
}

TEST(RuntimeSchedulerProperty, WithoutAgingTheFloodStarvesIt) {
  EXPECT_EQ(wait_under_flood({SchedulePolicy::kPriority, 50, 10, 50}, 0), -1);
  EXPECT_EQ(wait_under_flood({SchedulePolicy::kSjf, 0, 10, 50}, 0), -1);
}

}  // namespace
}  // namespace gpk::runtime
