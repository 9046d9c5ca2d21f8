// Idle workers are notified of freed memory: the ledgers here never ask them to poll.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <stop_token>
#include <thread>

#include "runtime/pool/pool.h"
#include "runtime/scheduler/scheduler.h"
#include "runtime_pool_fake.h"

namespace gpk::runtime {
namespace {

constexpr std::chrono::seconds kLong{60};

// One worker that serves until the end of the test.
class Worker {
 public:
  explicit Worker(Scheduler& scheduler)
      : thread_([&scheduler](const std::stop_token& stop) { scheduler.serve(stop); }) {}

 private:
  std::jthread thread_;
};

TaskSpec body_task(std::size_t bytes, const char* account = "") {
  TaskSpec spec;
  spec.memory_bytes = bytes;
  spec.account = account;
  spec.body = [](TaskContext&) {};
  return spec;
}

// The worker has tried, failed and gone to sleep, or is about to: both must end well.
void let_it_sleep() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

void expect_runs(Scheduler& scheduler, TaskId id) {
  const auto info = scheduler.wait(id, kLong);
  ASSERT_TRUE(info.has_value()) << "nobody woke the worker";
  EXPECT_EQ(info->state, TaskState::kCompleted);
}

TEST(RuntimeSchedulerWake, WhenAnotherSchedulerGivesBack) {
  const auto ledger = std::make_shared<LimitLedger>(100);
  Scheduler other(ledger);
  Scheduler scheduler(ledger);
  const Worker worker(scheduler);
  for (int i = 0; i < 20; ++i) {
    const TaskId holder = other.submit({.memory_bytes = 80});
    ASSERT_TRUE(other.start(holder));
    const TaskId id = scheduler.submit(body_task(50));
    if (i % 2 == 0) let_it_sleep();
    other.complete(holder);
    expect_runs(scheduler, id);
  }
}

TEST(RuntimeSchedulerWake, WhenALimitIsRaised) {
  const auto ledger = std::make_shared<LimitLedger>(100);
  ledger->set_account_limit("a", 50);
  Scheduler scheduler(ledger);
  const TaskId holder = scheduler.submit({.account = "a", .memory_bytes = 40});
  ASSERT_TRUE(scheduler.start(holder));
  const Worker worker(scheduler);
  const TaskId id = scheduler.submit(body_task(30, "a"));
  let_it_sleep();
  EXPECT_EQ(scheduler.state(id), TaskState::kQueued);
  ledger->set_account_limit("a", 70);
  expect_runs(scheduler, id);
  scheduler.complete(holder);
}

// Polls only when told to.
class SlowLedger final : public MemoryLedger {
 public:
  ReserveResult reserve(std::size_t, std::string_view) override {
    ++num_asked;
    return grant ? ReserveResult::kGranted : ReserveResult::kDeviceFull;
  }
  void release(std::size_t, std::string_view) noexcept override {}
  std::size_t device_bytes() const noexcept override { return 100; }
  std::size_t capacity_bytes(std::string_view) const noexcept override { return 100; }
  std::size_t available_bytes(std::string_view) const noexcept override { return grant ? 100 : 0; }
  std::chrono::nanoseconds recheck_after() const noexcept override { return pause; }
  std::atomic<bool> grant = false;
  std::atomic<int> num_asked = 0;
  std::chrono::nanoseconds pause = kNever;
};

TEST(RuntimeSchedulerWake, NobodyPollsALedgerThatNeverChangesByItself) {
  const auto ledger = std::make_shared<SlowLedger>();
  Scheduler scheduler(ledger);
  const Worker worker(scheduler);
  const TaskId id = scheduler.submit(body_task(10));
  let_it_sleep();
  const int num_asked = ledger->num_asked;
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(ledger->num_asked, num_asked);
  ledger->grant = true;
  scheduler.poll();
  expect_runs(scheduler, id);
}

TEST(RuntimeSchedulerWake, ALedgerSaysHowSoonToLookAgain) {
  const auto ledger = std::make_shared<SlowLedger>();
  ledger->pause = std::chrono::milliseconds(5);
  Scheduler scheduler(ledger);
  const Worker worker(scheduler);
  const TaskId id = scheduler.submit(body_task(10));
  let_it_sleep();
  ledger->grant = true;
  expect_runs(scheduler, id);
}

class Counter final : public MemoryListener {
 public:
  void memory_changed() noexcept override { ++num; }
  std::atomic<int> num = 0;
};

TEST(RuntimePoolListeners, HearOfWhatCameFree) {
  constexpr std::size_t kChunk = std::size_t{2} << 20;
  fake::PoolFake device;
  device.fast_streams = true;
  PoolOptions options;
  options.quota_bytes = 8 * kChunk;
  options.chunk_bytes = kChunk;
  Pool pool(device, options);
  Counter counter;
  pool.listeners().add(counter);
  const auto hears = [&](const char* what, const std::function<void()>& call) {
    const int before = counter.num;
    call();
    EXPECT_GT(counter.num, before) << what;
  };
  PoolBlock* block = pool.allocate(4 * kChunk, 1, {.evictable = true});
  hears("set_evictable", [&] { pool.set_evictable(block, true); });
  hears("free", [&] { pool.free(block); });
  PoolArena* arena = pool.try_reserve(2 * kChunk);
  ASSERT_NE(arena, nullptr);
  hears("close", [&] { pool.close(arena); });
  hears("set_quota", [&] { pool.set_quota(16 * kChunk); });
  const int refused = counter.num;
  EXPECT_EQ(pool.try_reserve(100 * kChunk), nullptr);
  PoolBlock* most = pool.allocate(15 * kChunk, 1);
  EXPECT_EQ(pool.try_reserve(2 * kChunk), nullptr);
  EXPECT_EQ(counter.num, refused) << "who tries in vain must not wake itself";
  pool.free(most);
  const int before = counter.num;
  pool.free(pool.allocate(4096, 1));
  EXPECT_EQ(counter.num, before) << "a small block stays with its thread";
  pool.listeners().remove(counter);
  PoolBlock* last = pool.allocate(4 * kChunk, 1);
  pool.free(last);
  EXPECT_EQ(counter.num, before);
}

}  // namespace
}  // namespace gpk::runtime
