// Tasks that wait for tasks inside their bodies: deadlocks are refused, everything else proceeds.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <random>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "runtime/scheduler/scheduler.h"

namespace gpk::runtime {
namespace {

constexpr std::chrono::seconds kLong{60};

class RuntimeSchedulerWaits : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { make(100); }
  void TearDown() override {
    workers.clear();
    scheduler->clear();  // children that nobody waited for
    EXPECT_EQ(ledger->reserved_bytes(), 0u);
  }
  void make(std::size_t bytes, SchedulerConfig config = {}) {
    ledger = std::make_shared<LimitLedger>(bytes);
    scheduler = std::make_unique<Scheduler>(ledger, config);
  }
  void serve() {
    for (int i = 0; i < GetParam(); ++i)
      workers.emplace_back([this](const std::stop_token& stop) { scheduler->serve(stop); });
  }
  TaskId submit(std::string name, std::size_t bytes, TaskBody body,
                std::vector<TaskId> dependencies = {}, double bandwidth = 0.0) {
    TaskSpec spec;
    spec.name = std::move(name);
    spec.memory_bytes = bytes;
    spec.bandwidth = bandwidth;
    spec.dependencies = std::move(dependencies);
    spec.body = std::move(body);
    return scheduler->submit(std::move(spec));
  }
  TaskId nothing(std::string name, std::size_t bytes, std::vector<TaskId> dependencies = {}) {
    return submit(std::move(name), bytes, [](TaskContext&) {}, std::move(dependencies));
  }
  // What the wait threw; "" when it ended.
  std::string wait_text(TaskId id) {
    try {
      scheduler->wait(id);
    } catch (const DeadlockError& error) {
      return error.what();
    }
    return "";
  }
  void expect_completed(TaskId id) {
    const auto info = scheduler->wait(id, kLong);
    ASSERT_TRUE(info.has_value()) << "hangs";
    EXPECT_EQ(info->state, TaskState::kCompleted) << info->reason;
  }

  std::shared_ptr<LimitLedger> ledger;
  std::unique_ptr<Scheduler> scheduler;
  std::vector<std::jthread> workers;
};

TEST_P(RuntimeSchedulerWaits, AChildThatDoesNotFitBesideItsParent) {
  std::string text;
  TaskId child = kNoTask;
  const TaskId parent = submit("parent", 60, [&](TaskContext&) {
    child = nothing("child", 60);
    text = wait_text(child);
  });
  serve();
  expect_completed(parent);
  expect_completed(child);  // it runs when its parent has ended
  EXPECT_EQ(text,
            "Scheduler: task 1 'parent' waits for task 2 'child', which can never start: it needs "
            "60 B, and of 100 B tasks that wait hold 60 B: task 1 'parent' 60 B");
}

TEST_P(RuntimeSchedulerWaits, ThreeLevels) {
  std::string middle_text;
  std::string outer_text;
  TaskId middle = kNoTask;
  const TaskId outer = submit("outer", 40, [&](TaskContext&) {
    middle =
        submit("middle", 40, [&](TaskContext&) { middle_text = wait_text(nothing("inner", 40)); });
    outer_text = wait_text(middle);
  });
  serve();
  expect_completed(outer);
  expect_completed(middle);  // it may be the one that goes on
  // Whoever waits last closes the cycle: with several workers that may be either of the two.
  EXPECT_NE(outer_text.empty(), middle_text.empty());
  const std::string text = outer_text + middle_text;
  EXPECT_NE(text.find("task 1 'outer' 40 B"), std::string::npos) << text;
  EXPECT_NE(text.find("task 2 'middle' 40 B"), std::string::npos) << text;
}

TEST_P(RuntimeSchedulerWaits, ADependencyThatDoesNotFit) {
  std::string text;
  const TaskId parent = submit("parent", 60, [&](TaskContext&) {
    const TaskId large = nothing("large", 60);
    text = wait_text(nothing("child", 0, {large}));
  });
  serve();
  expect_completed(parent);
  EXPECT_NE(text.find("'child', which depends on task 2 'large', which can never start"),
            std::string::npos)
      << text;
}

TEST_P(RuntimeSchedulerWaits, TwoThatHoldWhatTheOtherOnesChildNeeds) {
  std::atomic<int> num_started{0};
  std::atomic<int> num_refused{0};
  const auto body = [&](TaskContext&) {
    const TaskId child = nothing("child", 40);
    ++num_started;
    while (num_started < 2 && GetParam() > 1) std::this_thread::yield();
    if (!wait_text(child).empty()) ++num_refused;
  };
  const TaskId a = submit("a", 40, body);
  const TaskId b = submit("b", 40, body);
  serve();
  expect_completed(a);
  expect_completed(b);
  EXPECT_LE(num_refused, 1);  // when one has given up, the other one gets its memory
}

TEST_P(RuntimeSchedulerWaits, BandwidthThatTheParentHolds) {
  std::string text;
  const auto parent_body = [&](TaskContext&) {
    text = wait_text(submit("child", 0, [](TaskContext&) {}, {}, 0.6));
  };
  const TaskId parent = submit("parent", 0, parent_body, {}, 0.6);
  serve();
  expect_completed(parent);
  EXPECT_NE(text.find("needs 0.6 of the bandwidth"), std::string::npos) << text;
}

TEST_P(RuntimeSchedulerWaits, ForEachOther) {
  std::string first_text;
  std::string second_text;
  TaskId second = kNoTask;
  const TaskId first = submit("first", 0, [&](TaskContext& context) {
    const TaskId self = context.id();
    second = submit("second", 0, [&, self](TaskContext&) { second_text = wait_text(self); });
    first_text = wait_text(second);
  });
  serve();
  expect_completed(first);
  expect_completed(second);
  EXPECT_TRUE(first_text.empty() != second_text.empty()) << first_text << "\n" << second_text;
  EXPECT_NE((first_text + second_text).find("a cycle"), std::string::npos);
}

TEST_P(RuntimeSchedulerWaits, ForItself) {
  std::string text;
  const TaskId id = submit("self", 0, [&](TaskContext& me) { text = wait_text(me.id()); });
  serve();
  expect_completed(id);
  EXPECT_EQ(text, "Scheduler: task 1 'self' waits for task 1 'self': a cycle");
}

// --- waits that do end --------------------------------------------------------------------------

TEST_P(RuntimeSchedulerWaits, MemoryThatAThirdTaskGivesBack) {
  const TaskId third = scheduler->submit({.name = "third", .memory_bytes = 50});
  ASSERT_TRUE(scheduler->start(third));
  std::string text = "not run";
  const TaskId parent =
      submit("parent", 40, [&](TaskContext&) { text = wait_text(nothing("child", 60)); });
  serve();
  EXPECT_FALSE(scheduler->wait(parent, std::chrono::milliseconds(50)).has_value());
  scheduler->complete(third);
  expect_completed(parent);
  EXPECT_EQ(text, "");
}

TEST_P(RuntimeSchedulerWaits, MemoryOfAThirdTaskThatWaitsForWhatFits) {
  std::string third_text = "not run";
  std::string text = "not run";
  const TaskId third =
      submit("third", 50, [&](TaskContext&) { third_text = wait_text(nothing("small", 10)); });
  const TaskId parent =
      submit("parent", 40, [&](TaskContext&) { text = wait_text(nothing("child", 60)); });
  serve();
  expect_completed(third);
  expect_completed(parent);
  EXPECT_EQ(third_text, "");
  EXPECT_EQ(text, "");
}

TEST_P(RuntimeSchedulerWaits, ATimeoutIsNoDeadlock) {
  bool ended = true;
  const TaskId parent = submit("parent", 60, [&](TaskContext&) {
    ended = scheduler->wait(nothing("child", 60), std::chrono::milliseconds(5)).has_value();
  });
  serve();
  expect_completed(parent);
  EXPECT_FALSE(ended);
}

// The child is behind more tasks that do not fit than a pass looks at.
TEST_P(RuntimeSchedulerWaits, AChildFarBackInTheQueue) {
  SchedulerConfig config;
  config.backfill_depth = 4;
  make(100, config);
  std::string text = "not run";
  const TaskId parent = submit("parent", 60, [&](TaskContext&) {
    for (int i = 0; i < 20; ++i) nothing("large", 50);
    text = wait_text(nothing("child", 30));
  });
  serve();
  expect_completed(parent);
  EXPECT_EQ(text, "");
  for (TaskId id = 2; id <= 21; ++id) expect_completed(id);
}

// What is free is kept for a task that cannot have it before the parent ends.
TEST_P(RuntimeSchedulerWaits, AChildWhenMemoryIsKeptForAnother) {
  SchedulerConfig config;
  config.max_passes = 1;
  make(100, config);
  std::string text = "not run";
  const TaskId parent = submit("parent", 60, [&](TaskContext&) {
    nothing("large", 100);
    for (int i = 0; i < 4; ++i) text = wait_text(nothing("child", 30));
  });
  serve();
  expect_completed(parent);
  EXPECT_EQ(text, "");
}

// A child that lacks memory must not take bandwidth from a later one again and again.
TEST_P(RuntimeSchedulerWaits, AChildThatNeedsWhatALaterOneHas) {
  std::string text = "not run";
  std::string later_text = "not run";
  const TaskId parent = submit("parent", 30, [&](TaskContext&) {
    const TaskId holder = submit("holder", 70, [&](TaskContext&) {
      later_text = wait_text(submit("later", 0, [](TaskContext&) {}, {}, 0.6));
    });
    text = wait_text(submit("child", 10, [](TaskContext&) {}, {}, 0.6));
    scheduler->wait(holder);
  });
  serve();
  expect_completed(parent);
  EXPECT_EQ(text, "");
  EXPECT_EQ(later_text, "");
}

TEST_P(RuntimeSchedulerWaits, DeepNesting) {
  std::atomic<int> num_run{0};
  std::function<void(int)> level = [&](int depth) {
    ++num_run;
    if (depth == 0) return;
    const TaskId child = submit("", 1, [&, depth](TaskContext&) { level(depth - 1); });
    EXPECT_EQ(wait_text(child), "");
  };
  const TaskId root = submit("root", 1, [&](TaskContext&) { level(40); });
  serve();
  expect_completed(root);
  EXPECT_EQ(num_run, 41);
}

// Whatever tasks hold, request and wait for: every one ends, normally or refused.
TEST_P(RuntimeSchedulerWaits, RandomTrees) {
  SchedulerConfig config;
  config.backfill_depth = 2;
  config.max_passes = 2;
  make(100, config);
  serve();
  std::atomic<int> num_refused{0};
  std::function<void(int, unsigned)> node = [&](int depth, unsigned seed) {
    std::minstd_rand random(seed);
    const auto one_of = [&random](auto... values) {
      const std::array options{values...};
      return options[random() % options.size()];
    };
    std::vector<TaskId> children;
    for (int i = one_of(0, 1, 2, 3); depth > 0 && i > 0; --i) {
      const auto child_seed = static_cast<unsigned>(random());
      const auto bytes = static_cast<std::size_t>(one_of(0, 10, 30, 50, 70, 100));
      std::vector<TaskId> after;
      if (!children.empty() && one_of(true, false, false)) after.push_back(children.back());
      const auto body = [&node, depth, child_seed](TaskContext&) { node(depth - 1, child_seed); };
      children.push_back(submit("", bytes, body, after, one_of(0.0, 0.0, 0.2, 0.6)));
    }
    for (const TaskId child : children)
      if (one_of(true, true, false) && !wait_text(child).empty()) ++num_refused;
  };
  for (unsigned seed = 1; seed <= 30; ++seed) {
    std::vector<TaskId> roots;
    for (unsigned i = 0; i < 1 + seed % 6; ++i) {
      const auto bytes = static_cast<std::size_t>(10 * (seed % 4));
      roots.push_back(
          submit("", bytes, [&, seed, i](TaskContext&) { node(3, 1000 * seed + 77 * i); }));
    }
    for (const TaskId root : roots) expect_completed(root);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
    for (const TaskInfo& task : scheduler->snapshot().tasks) expect_completed(task.id);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(num_refused, 0);
}

INSTANTIATE_TEST_SUITE_P(Workers, RuntimeSchedulerWaits, testing::Values(1, 2, 4));

}  // namespace
}  // namespace gpk::runtime
