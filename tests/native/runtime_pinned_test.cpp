#include "runtime/pool/pinned.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <new>
#include <random>
#include <thread>
#include <vector>

#include "runtime/error.h"
#include "runtime_expect.h"

namespace gpk::runtime {
namespace {

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;

// Real memory, counted.
class CountingAllocator final : public PinnedAllocator {
 public:
  ~CountingAllocator() override { EXPECT_TRUE(live_.empty()) << "pinned memory leaks"; }
  void* allocate(std::size_t bytes, std::size_t alignment) override {
    const std::lock_guard lock(mutex_);
    if (num_failures > 0) {
      --num_failures;
      if (throws) throw std::bad_alloc();
      return nullptr;
    }
    void* ptr = ::operator new(bytes, std::align_val_t{alignment});
    live_[ptr] = {bytes, alignment};
    live_bytes += bytes;
    return ptr;
  }
  void free(void* ptr, std::size_t bytes) noexcept override {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(ptr);
    ASSERT_NE(found, live_.end());
    EXPECT_EQ(found->second.first, bytes);
    live_bytes -= bytes;
    ::operator delete(ptr, std::align_val_t{found->second.second});
    live_.erase(found);
  }
  std::size_t live_bytes = 0;
  int num_failures = 0;
  bool throws = false;

 private:
  std::mutex mutex_;
  std::map<void*, std::pair<std::size_t, std::size_t>> live_;
};

class RuntimePinned : public ::testing::Test {
 protected:
  static PinnedPoolConfig limit(std::size_t bytes, bool pooling = true) {
    PinnedPoolConfig config;
    config.max_size = bytes;
    config.enable_pooling = pooling;
    return config;
  }
  ManualClock clock_;
  CountingAllocator allocator_;
};

TEST_F(RuntimePinned, Classes) {
  const std::pair<std::size_t, std::size_t> cases[] = {{1, 4 * kKiB},
                                                       {4 * kKiB, 4 * kKiB},
                                                       {4 * kKiB + 1, 64 * kKiB},
                                                       {65 * kKiB, 256 * kKiB},
                                                       {257 * kKiB, kMiB},
                                                       {kMiB + 1, 4 * kMiB},
                                                       {5 * kMiB, 16 * kMiB},
                                                       {17 * kMiB, 64 * kMiB},
                                                       {65 * kMiB, 256 * kMiB},
                                                       {256 * kMiB + 1, 256 * kMiB + 256}};
  for (const auto& [bytes, size] : cases)
    EXPECT_EQ(PinnedMemoryManager::size_class(bytes, 256), size);
}

TEST_F(RuntimePinned, BlocksAreRealAndReused) {
  PinnedMemoryManager manager(allocator_, clock_);
  const auto first = manager.allocate(5000);
  EXPECT_EQ(first.size_bytes, 64 * kKiB);
  EXPECT_FALSE(first.reused);
  void* const memory = manager.get(first.id)->host_ptr;
  std::memset(memory, 7, first.size_bytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 256, 0u);
  const auto freed = manager.free(first.id);
  EXPECT_FALSE(freed.free_now);
  EXPECT_EQ(freed.host_ptr, memory);
  EXPECT_FALSE(manager.get(first.id).has_value());
  EXPECT_EQ(manager.stats().pooled_bytes, 64 * kKiB);
  const auto second = manager.allocate(60'000);
  EXPECT_TRUE(second.reused);
  EXPECT_NE(second.id, first.id);
  EXPECT_EQ(manager.get(second.id)->host_ptr, memory);
  EXPECT_FALSE(manager.allocate(100).reused);
  const PinnedStats stats = manager.stats();
  EXPECT_EQ(stats.used_bytes, 68 * kKiB);
  EXPECT_EQ(stats.num_allocations, 3u);
  EXPECT_EQ(stats.num_reuses, 1u);
  EXPECT_EQ(stats.num_active, 2u);
  EXPECT_EQ(allocator_.live_bytes, 68 * kKiB);
}

TEST_F(RuntimePinned, WithoutPooling) {
  PinnedMemoryManager manager(allocator_, clock_, limit(kMiB, false));
  manager.free(manager.allocate(1).id);
  EXPECT_EQ(allocator_.live_bytes, 0u);
  EXPECT_FALSE(manager.allocate(1).reused);
}

TEST_F(RuntimePinned, LimitAndPooledMemoryMakesRoom) {
  PinnedMemoryManager manager(allocator_, clock_, limit(300 * kKiB));
  const auto large = manager.allocate(256 * kKiB);
  EXPECT_FALSE(manager.can_allocate(5 * kKiB));
  EXPECT_TRUE(manager.can_allocate(4 * kKiB));
  EXPECT_FALSE(manager.can_allocate(0));
  EXPECT_EQ(kind_of([&] { manager.allocate(5 * kKiB); }), Error::Kind::kMemory);
  EXPECT_EQ(kind_of([&] { manager.allocate(~std::size_t{0}); }), Error::Kind::kMemory);
  EXPECT_EQ(kind_of([&] { manager.allocate(0); }), Error::Kind::kValue);
  manager.free(large.id);
  EXPECT_TRUE(manager.can_allocate(5 * kKiB));
  manager.allocate(5 * kKiB);  // the pooled 256 KiB goes
  EXPECT_EQ(allocator_.live_bytes, 64 * kKiB);
  EXPECT_LE(manager.stats().peak_bytes, 300 * kKiB);
  EXPECT_EQ(manager.stats().pooled_bytes, 0u);
}

TEST_F(RuntimePinned, MachineHasNone) {
  PinnedMemoryManager manager(allocator_, clock_, limit(kMiB));
  for (const bool throws : {false, true}) {
    manager.free(manager.allocate(1).id);
    allocator_.num_failures = 1;
    allocator_.throws = throws;
    manager.allocate(64 * kKiB);  // the second try, after the pool was given back
    EXPECT_EQ(manager.stats().num_pooled, 0u);
  }
  for (const bool throws : {false, true}) {
    allocator_.num_failures = 1;
    allocator_.throws = throws;
    EXPECT_EQ(kind_of([&] { manager.allocate(1); }), Error::Kind::kMemory);
  }
  EXPECT_EQ(manager.stats().used_bytes, 128 * kKiB);
  EXPECT_EQ(manager.active_count(), 2u);
}

TEST_F(RuntimePinned, MemoryOfOthers) {
  PinnedMemoryManager manager(allocator_, clock_);
  std::vector<char> outside(1000);
  manager.register_block(50, outside.data(), outside.size());
  EXPECT_TRUE(manager.get(50)->outside);
  EXPECT_EQ(manager.stats().outside_bytes, 1000u);
  EXPECT_EQ(manager.stats().used_bytes, 0u);
  const auto own = manager.allocate(1);
  EXPECT_GT(own.id, 50u);
  manager.register_block(own.id, outside.data(), 10);  // in place of its memory
  EXPECT_EQ(manager.stats().used_bytes, 0u);
  EXPECT_EQ(manager.get(own.id)->host_ptr, outside.data());
  const auto freed = manager.free(own.id);
  EXPECT_TRUE(freed.free_now);
  EXPECT_EQ(freed.host_ptr, outside.data());
  EXPECT_TRUE(manager.free(50).free_now);
  EXPECT_EQ(manager.stats().outside_bytes, 0u);
  manager.register_block(50, outside.data(), 10);
  EXPECT_EQ(kind_of([&] { manager.register_block(50, outside.data(), 10); }), Error::Kind::kValue);
  EXPECT_EQ(kind_of([&] { manager.register_block(51, nullptr, 10); }), Error::Kind::kValue);
  EXPECT_EQ(kind_of([&] { manager.register_block(51, outside.data(), 0); }), Error::Kind::kValue);
}

TEST_F(RuntimePinned, Tasks) {
  PinnedMemoryManager manager(allocator_, clock_);
  const auto a = manager.allocate(1).id;
  const auto b = manager.allocate(1).id;
  const auto c = manager.allocate(1).id;
  manager.associate_task(a, "one");
  manager.associate_task(b, "one");
  manager.associate_task(c, "two");
  manager.associate_task(b, "two");
  manager.associate_task(b, "two");
  EXPECT_EQ(manager.get_blocks_for_task("one"), (std::vector<std::uint64_t>{a}));
  EXPECT_EQ(manager.get_blocks_for_task("two"), (std::vector<std::uint64_t>{b, c}));
  manager.free(c);
  EXPECT_EQ(manager.free_task_blocks("two").size(), 1u);
  EXPECT_TRUE(manager.free_task_blocks("two").empty());
  EXPECT_EQ(manager.active_count(), 1u);
  manager.associate_task(a, "");
  EXPECT_TRUE(manager.get_blocks_for_task("one").empty());
  clock_.advance_ns(5);
  manager.touch(a);
  EXPECT_EQ(manager.get(a)->last_access_ns, 5);
  for (const auto& call :
       std::vector<std::function<void()>>{[&] { manager.free(c); }, [&] { manager.touch(c); },
                                          [&] { manager.associate_task(c, "x"); }})
    EXPECT_EQ(kind_of(call), Error::Kind::kValue);
  PinnedPoolConfig odd;
  odd.alignment = 3;
  EXPECT_EQ(kind_of([&] { PinnedMemoryManager wrong(allocator_, clock_, odd); }),
            Error::Kind::kValue);
}

TEST_F(RuntimePinned, ClearGivesAllBack) {
  PinnedMemoryManager manager(allocator_, clock_);
  manager.free(manager.allocate(1).id);
  manager.allocate(5000);
  EXPECT_EQ(manager.clear_pool(), 4 * kKiB);
  EXPECT_EQ(allocator_.live_bytes, 64 * kKiB);
  manager.clear();
  EXPECT_EQ(allocator_.live_bytes, 0u);
  EXPECT_EQ(manager.stats().used_bytes + manager.stats().num_active, 0u);
}

TEST_F(RuntimePinned, AgainstModel) {
  std::mt19937 random(3);
  PinnedMemoryManager manager(allocator_, clock_, limit(2 * kMiB));
  std::map<std::uint64_t, std::size_t> live;  // id to class size
  std::size_t used = 0;
  for (unsigned step = 0; step < rounds(3000); ++step) {
    if (random() % 2 == 0) {
      const std::size_t bytes = 1 + random() % (300 * kKiB);
      const bool fits = used + PinnedMemoryManager::size_class(bytes, 256) <= 2 * kMiB;
      ASSERT_EQ(manager.can_allocate(bytes), fits);
      if (fits) {
        const auto block = manager.allocate(bytes);
        ASSERT_TRUE(live.emplace(block.id, block.size_bytes).second);
        used += block.size_bytes;
      } else {
        ASSERT_EQ(kind_of([&] { manager.allocate(bytes); }), Error::Kind::kMemory);
      }
    } else if (!live.empty()) {
      const auto victim = std::next(live.begin(), static_cast<long>(random() % live.size()));
      manager.free(victim->first);
      used -= victim->second;
      live.erase(victim);
    }
    const PinnedStats stats = manager.stats();
    ASSERT_EQ(stats.used_bytes, used);
    ASSERT_LE(stats.used_bytes + stats.pooled_bytes, 2 * kMiB);
    ASSERT_EQ(allocator_.live_bytes, stats.used_bytes + stats.pooled_bytes);
    ASSERT_EQ(stats.num_active, live.size());
  }
}

TEST_F(RuntimePinned, Threads) {
  PinnedMemoryManager manager(allocator_, clock_, limit(64 * kMiB));
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 6; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 150; ++i) {
        const auto block = manager.allocate(1 + random() % 10'000);
        std::memset(manager.get(block.id)->host_ptr, static_cast<int>(t), 100);
        manager.associate_task(block.id, "t" + std::to_string(t));
        manager.touch(block.id);
        if (i % 3 != 0) manager.free(block.id);
      }
      manager.free_task_blocks("t" + std::to_string(t));
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(manager.stats().used_bytes, 0u);
  EXPECT_EQ(manager.stats().num_frees, 900u);
}

}  // namespace
}  // namespace gpk::runtime
