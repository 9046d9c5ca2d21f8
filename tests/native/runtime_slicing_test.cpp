#include "runtime/sharing/slicing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "runtime/error.h"
#include "runtime_expect.h"

namespace gpk::runtime {
namespace {

TEST(RuntimeSlicing, PlanCoversEveryTileOnce) {
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    const std::uint64_t tiles = 1 + random() % 1000;
    const double cost = 1.0 + random() % 100;
    const double limit = 1.0 + random() % 2000;
    const SlicePlan plan = plan_slices(tiles, cost, limit);
    std::uint64_t next = 0;
    for (std::uint64_t s = 0; s < plan.num_slices; ++s) {
      const SlicePlan::Range range = plan.slice(s);
      ASSERT_EQ(range.first_tile, next);
      ASSERT_GE(range.num_tiles, 1u);
      next += range.num_tiles;
      if (range.num_tiles > 1) {
        ASSERT_LE(static_cast<double>(range.num_tiles) * cost, limit);
      }
    }
    ASSERT_EQ(next, tiles);
    // One slice less would be too long.
    if (plan.num_slices > 1) {
      ASSERT_GT(
          std::ceil(static_cast<double>(tiles) / static_cast<double>(plan.num_slices - 1)) * cost,
          limit);
    }
  }
}

TEST(RuntimeSlicing, PlanEdges) {
  EXPECT_EQ(plan_slices(0, 1.0, 1.0).num_slices, 0u);
  EXPECT_EQ(plan_slices(7, 0.0, 1.0).num_slices, 1u);
  EXPECT_EQ(plan_slices(7, 5.0, 1.0).num_slices, 7u);
  EXPECT_EQ(plan_slices(~0ull, 1.0, 1e30).num_slices, 1u);
  EXPECT_EQ(plan_slices(~0ull, 1.0, 1.0).slice(~0ull - 1).num_tiles, 1u);
  using Kind = Error::Kind;
  EXPECT_EQ(kind_of([] { (void)plan_slices(1, -1.0, 1.0); }), Kind::kValue);
  EXPECT_EQ(kind_of([] { (void)plan_slices(1, 1.0, 0.0); }), Kind::kValue);
  EXPECT_EQ(kind_of([] { (void)plan_slices(1, std::nan(""), 1.0); }), Kind::kValue);
  EXPECT_EQ(kind_of([] { (void)plan_slices(4, 1.0, 1.0).slice(4); }), Kind::kValue);
}

TEST(RuntimeSlicing, NumberOfSlices) {
  SliceScheduler scheduler;
  EXPECT_EQ(scheduler.submit(1, 10), 1u);
  EXPECT_EQ(scheduler.submit(1, 65536 * 4 + 5), 4u);
  EXPECT_EQ(scheduler.submit(1, 65536ull * 1000), 256u);
  EXPECT_EQ(scheduler.pending_slices(), 261u);
  EXPECT_EQ(scheduler.pending_kernels(), 3u);
  SliceConfig config;
  config.min_slices = 16;
  SliceScheduler fine(config);
  EXPECT_EQ(fine.submit(1, 1000), 16u);
  EXPECT_EQ(fine.submit(1, 10), 10u);  // no empty slices
}

TEST(RuntimeSlicing, KernelsTakeTurns) {
  SliceConfig config;
  config.max_items_per_slice = 10;
  SliceScheduler scheduler(config);
  scheduler.submit(100, 30);
  scheduler.submit(200, 20);
  scheduler.submit_for_task("hurry", 300, 20, {64, 1, 1}, 512, 5);
  std::vector<std::uint64_t> order;
  while (const auto slice = scheduler.get_next_slice()) {
    order.push_back(slice->kernel_handle);
    EXPECT_EQ(slice->num_items, 10u);
    EXPECT_EQ(slice->offset_items, slice->slice_index * 10);
    if (slice->kernel_handle == 300) {
      EXPECT_EQ(slice->task_id, "hurry");
      EXPECT_EQ(slice->shared_mem_bytes, 512u);
      EXPECT_EQ(slice->grid_x, 1u);
    }
    EXPECT_TRUE(scheduler.complete_slice(0.5));
  }
  EXPECT_EQ(order, (std::vector<std::uint64_t>{300, 300, 100, 200, 100, 200, 100}));
  EXPECT_FALSE(scheduler.complete_slice(0.5));
  const SliceStats stats = scheduler.stats();
  EXPECT_EQ(stats.num_kernels_completed, 3u);
  EXPECT_EQ(stats.num_slices_completed, 7u);
  EXPECT_EQ(stats.pending_kernels, 0u);
  EXPECT_DOUBLE_EQ(stats.avg_ms(), 0.5);
}

TEST(RuntimeSlicing, LearnsHowLongItemsTake) {
  SliceScheduler scheduler;
  EXPECT_EQ(scheduler.submit(1, 60000), 1u);
  (void)scheduler.get_next_slice();
  scheduler.complete_slice(8.0);  // eight times the limit
  EXPECT_EQ(scheduler.submit(1, 60000), 8u);
  EXPECT_EQ(scheduler.submit(2, 60000), 1u);  // another kernel
  EXPECT_EQ(scheduler.submit(1, 60000ull * 1000), 256u);
  SliceConfig fixed;
  fixed.adaptive = false;
  SliceScheduler plain(fixed);
  plain.submit(1, 60000);
  (void)plain.get_next_slice();
  plain.complete_slice(8.0);
  EXPECT_EQ(plain.submit(1, 60000), 1u);
}

TEST(RuntimeSlicing, Errors) {
  using Kind = Error::Kind;
  SliceScheduler scheduler;
  EXPECT_EQ(kind_of([&] { scheduler.submit(1, 0); }), Kind::kValue);
  EXPECT_EQ(kind_of([&] { scheduler.submit(1, 5, {0, 1, 1}); }), Kind::kValue);
  scheduler.submit(1, 5);
  (void)scheduler.get_next_slice();
  EXPECT_EQ(kind_of([&] { scheduler.complete_slice(-1.0); }), Kind::kValue);
  scheduler.clear();
  EXPECT_FALSE(scheduler.complete_slice(1.0));
  EXPECT_EQ(scheduler.pending_slices(), 0u);
  SliceConfig config;
  config.min_slices = 5;
  config.max_slices = 4;
  EXPECT_EQ(kind_of([&] { SliceScheduler wrong(config); }), Kind::kValue);
  config = {};
  config.max_duration_ms = 0.0;
  EXPECT_EQ(kind_of([&] { SliceScheduler wrong(config); }), Kind::kValue);
}

// Several slices out at once, completed in order, by several threads: every item exactly once.
TEST(RuntimeSlicing, Threads) {
  SliceConfig config;
  config.max_items_per_slice = 7;
  SliceScheduler scheduler(config);
  std::mutex mutex;
  std::map<std::uint64_t, std::uint64_t> items;  // by kernel handle
  std::vector<std::thread> threads;
  for (std::uint64_t t = 1; t <= 4; ++t)
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 1; i <= 20; ++i) {
        scheduler.submit_for_task("t", t, 10 * i, {32, 1, 1}, 0, static_cast<int>(i % 3));
        while (const auto slice = scheduler.get_next_slice()) {
          const std::lock_guard lock(mutex);
          items[slice->kernel_handle] += slice->num_items;
          scheduler.complete_slice(0.01);
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (std::uint64_t t = 1; t <= 4; ++t) EXPECT_EQ(items[t], 2100u);
  EXPECT_EQ(scheduler.stats().num_kernels_completed, 80u);
  EXPECT_EQ(scheduler.pending_slices(), 0u);
}

}  // namespace
}  // namespace gpk::runtime
