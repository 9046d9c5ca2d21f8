#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <latch>
#include <random>
#include <thread>

#include "runtime/pool/pool.h"
#include "runtime_pool_fake.h"

namespace gpk::runtime {
namespace {

using fake::PoolFake;
using Stream = Pool::Stream;

constexpr std::size_t kChunk = std::size_t{16} << 10;
constexpr std::size_t kNumThreads = 8;

PoolOptions options(std::size_t quota_chunks) {
  PoolOptions result;
  result.chunk_bytes = kChunk;
  result.region_bytes = 1024 * kChunk;
  result.small_max_bytes = std::size_t{8} << 10;
  result.quota_bytes = quota_chunks * kChunk;
  return result;
}

template <class Body>
void run_threads(Body body) {
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kNumThreads; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

// Each thread writes its blocks, hands some to others through shared slots, and checks what it
// gets before it frees it.
TEST(PoolThreads, EightHammer) {
  PoolFake device;
  device.fast_streams = true;
  device.quota_bytes = 200 * kChunk;
  Pool pool(device, options(200));
  PoolAccount* account = pool.open_account(40 * kChunk);
  struct Slot {
    std::atomic<PoolBlock*> block{nullptr};
  };
  std::array<Slot, 64> slots;
  std::atomic<std::size_t> num_done{0};
  run_threads([&](std::size_t me) {
    std::minstd_rand random(static_cast<unsigned>(me + 1));
    for (std::size_t i = 0; i < 1000; ++i) {
      const Stream stream = 1 + random() % 3;
      const std::size_t bytes =
          random() % 8 != 0 ? 1 + random() % 5000 : 1 + random() % (3 * kChunk);
      PoolPlace place;
      if (random() % 3 == 0) place.account = account;
      place.evictable = random() % 16 == 0;
      PoolBlock* block = nullptr;
      try {
        block = pool.allocate(bytes, stream, place);
        const PoolUse use(pool, block, stream);
        device.fill(block->address, 64, block->address);
      } catch (const OutOfMemory&) {
        if (block != nullptr) pool.free(block);
        continue;
      }
      PoolBlock* other = slots[random() % slots.size()].block.exchange(block);
      if (other == nullptr) continue;
      try {
        const PoolUse use(pool, other, stream);
        device.expect(other->address, 64, other->address);
      } catch (const OutOfMemory&) {
      }
      const std::array<Stream, 1> others = {stream};
      pool.free(other, others);
      ++num_done;
      if (random() % 200 == 0) pool.trim();
      EXPECT_TRUE(random() % 100 != 0 || pool.stats().reserved_bytes <= 200 * kChunk);
      EXPECT_TRUE(random() % 300 != 0 || !pool.snapshot().empty());
      if (random() % 300 == 0) pool.forget_stream(10 + me);
    }
  });
  EXPECT_GT(num_done.load(), 4000u);
  for (Slot& slot : slots)
    if (PoolBlock* block = slot.block.load()) pool.free(block);
  EXPECT_TRUE(device.errors.empty()) << device.errors.front();
  EXPECT_EQ(account->stats().used_bytes, 0u);
  EXPECT_LE(account->stats().peak_bytes, 40 * kChunk);
  pool.trim();
  EXPECT_EQ(pool.stats().used_bytes, 0u);
  EXPECT_EQ(pool.stats().num_blocks, 0u);
  EXPECT_EQ(device.physical_bytes(), 0u);
}

// More data than memory; each thread owns its blocks, all evict each other's.
TEST(PoolThreads, EvictEachOther) {
  PoolFake device;
  device.fast_streams = true;
  device.quota_bytes = 12 * kChunk;
  PoolOptions opts = options(12);
  opts.evict_from_bytes = 1;
  Pool pool(device, opts);
  std::atomic<std::size_t> num_checks{0};
  std::latch start(kNumThreads);
  run_threads([&](std::size_t me) {
    std::minstd_rand random(static_cast<unsigned>(me + 100));
    const Stream stream = 1 + me;
    std::array<PoolBlock*, 16> blocks{};
    std::array<std::uint64_t, 16> seeds{};
    for (PoolBlock*& block : blocks) block = pool.allocate(kChunk, stream);
    start.arrive_and_wait();
    for (std::size_t i = 0; i < 100; ++i) {
      const std::size_t which = random() % blocks.size();
      try {
        if (blocks[which] == nullptr) {
          blocks[which] = pool.allocate(kChunk, stream);
          seeds[which] = 0;
        }
        const PoolUse use(pool, blocks[which], stream);
        if (seeds[which] != 0) device.expect(blocks[which]->address, kChunk, seeds[which]);
        seeds[which] = 1 + random();
        device.fill(blocks[which]->address, kChunk, seeds[which]);
        ++num_checks;
      } catch (const OutOfMemory&) {  // the others have pinned all there is
      }
      if (random() % 50 == 0 && blocks[which] != nullptr) {
        pool.free(blocks[which]);
        blocks[which] = nullptr;
      }
    }
    for (PoolBlock* block : blocks)
      if (block != nullptr) pool.free(block);
  });
  EXPECT_TRUE(device.errors.empty()) << device.errors.front();
  EXPECT_GT(num_checks.load(), 600u);
  EXPECT_GT(pool.stats().num_evictions, 100u);
  pool.trim();
  EXPECT_EQ(device.physical_bytes(), 0u);
  EXPECT_EQ(device.host_bytes(), 0u);
}

// A limit is exact to the byte in any interleaving.
TEST(PoolThreads, AccountLimitsAreExact) {
  PoolFake device;
  device.fast_streams = true;
  Pool pool(device, options(0));
  PoolAccount* account = pool.open_account(1000 * 256);
  std::atomic<std::size_t> num_got{0};
  std::array<std::vector<PoolBlock*>, kNumThreads> blocks;
  run_threads([&](std::size_t me) {
    for (int i = 0; i < 1000; ++i) {
      try {
        blocks[me].push_back(pool.allocate(200, 1, {.account = account}));
        ++num_got;
      } catch (const OutOfMemory& error) {
        EXPECT_TRUE(error.numbers().account_refused);
      }
    }
  });
  EXPECT_EQ(num_got.load(), 1000u);
  EXPECT_EQ(account->stats().used_bytes, 1000u * 256u);
  EXPECT_EQ(account->stats().num_refused, 7000u);
  for (const auto& list : blocks)
    for (PoolBlock* block : list) pool.free(block);
  EXPECT_EQ(account->stats().used_bytes, 0u);
}

// While one thread waits for the device the pool serves the others.
class PoolWhileWaiting : public ::testing::Test {
 protected:
  static PoolOptions evicting() {
    PoolOptions result = options(4);
    result.evict_from_bytes = 1;
    return result;
  }
  void TearDown() override {
    EXPECT_TRUE(device.errors.empty()) << device.errors.front();
    EXPECT_EQ(num_hooks, 1);
  }
  // Runs in another thread, to its end, when the pool next waits.
  void during_wait(std::function<void()> call) {
    device.on_wait = [this, call = std::move(call)] {
      ++num_hooks;
      std::thread(call).join();
    };
  }
  PoolFake device;
  int num_hooks = 0;
};

TEST_F(PoolWhileWaiting, OthersAllocateDuringAnEviction) {
  Pool pool(device, evicting());
  PoolBlock* victim = pool.allocate(2 * kChunk, 1);
  PoolBlock* hole = pool.allocate(kChunk, 1);
  device.launch(1, [&] { device.fill(victim->address, 2 * kChunk, 7); });
  pool.free(hole);
  PoolBlock* other = nullptr;
  during_wait([&] {
    other = pool.allocate(kChunk, 1);
    EXPECT_FALSE(pool.is_evicted(victim));
    EXPECT_EQ(pool.stats().used_bytes, 3 * kChunk);
  });
  EXPECT_EQ(pool.evict(victim), 2 * kChunk);
  pool.acquire(victim, 1);
  device.launch(1, [&] { device.expect(victim->address, 2 * kChunk, 7); });
  pool.release(victim);
  device.run_all();
  pool.free(other);
  pool.free(victim);
}

TEST_F(PoolWhileWaiting, WhoeverWantsALeavingBlockWaitsForIt) {
  Pool pool(device, evicting());
  PoolBlock* a = pool.allocate(kChunk, 1);
  PoolBlock* b = pool.allocate(kChunk, 1);
  device.fill(a->address, kChunk, 3);
  std::vector<std::thread> threads;
  device.on_wait = [&] {  // both are being evicted
    ++num_hooks;
    threads.emplace_back([&] {
      const PoolUse use(pool, a, 2);
      EXPECT_FALSE(pool.is_evicted(a));
    });
    threads.emplace_back([&] { pool.free(b); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  };
  PoolBlock* all = pool.allocate(4 * kChunk, 3);  // evicts both
  pool.free(all);
  for (std::thread& thread : threads) thread.join();
  device.run_all();
  EXPECT_TRUE(device.holds(a->address, kChunk, 3));
  pool.free(a, std::array<Stream, 1>{2});
  device.run_all();
  pool.trim();
  EXPECT_EQ(device.physical_bytes(), 0u);
  EXPECT_EQ(pool.stats().evicted_bytes, 0u);
}

TEST_F(PoolWhileWaiting, MemoryFreedMeanwhileIsNotTakenForIdle) {
  Pool pool(device, options(4));
  PoolBlock* a = pool.allocate(2 * kChunk, 1);
  PoolBlock* b = pool.allocate(2 * kChunk, 1);
  const auto address = b->address;
  device.fill(address, 2 * kChunk, 1);
  device.launch(1, [] {});
  pool.free(a);
  during_wait([&] {  // the wait is for what stream 1 has done so far, not for this
    device.launch(1, [&] { device.expect(address, 2 * kChunk, 1); });
    pool.free(b);
  });
  pool.trim();
  PoolBlock* c = pool.allocate(2 * kChunk, 2);
  PoolBlock* d = pool.allocate(2 * kChunk, 2);
  for (PoolBlock* block : {c, d})
    device.launch(2, [this, at = block->address] { device.fill(at, 2 * kChunk, 2); });
  device.run(2);
  device.run_all();
  pool.free(c);
  pool.free(d);
}

TEST_F(PoolWhileWaiting, TheLastMemoryIsWorthAWaitForAnotherThread) {
  Pool pool(device, options(2));
  PoolBlock* a = pool.allocate(kChunk, 1);
  PoolBlock* b = pool.allocate(kChunk, 1);
  device.launch(2, [] {});
  pool.free(a, std::array<Stream, 1>{2});
  std::thread thread;
  device.on_wait = [&] {  // the other thread finds nothing else to wait for
    ++num_hooks;
    thread = std::thread([&] { pool.free(pool.allocate(kChunk, 1)); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  };
  pool.trim();
  thread.join();
  pool.free(b);
}

TEST(PoolThreads, PoolsAndThreadsEndInAnyOrder) {
  PoolFake device;
  device.fast_streams = true;
  for (int round = 0; round < 20; ++round) {
    auto pool = std::make_unique<Pool>(device, options(0));
    std::atomic<int> num_ready{0};
    std::atomic<bool> leave{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] {
        pool->free(pool->allocate(1000, 1));
        ++num_ready;
        while (!leave.load()) std::this_thread::yield();
      });
    while (num_ready.load() < 4) std::this_thread::yield();
    leave.store(true);
    pool.reset();  // while the threads end
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_TRUE(device.clean());
  EXPECT_TRUE(device.errors.empty());
}

}  // namespace
}  // namespace gpk::runtime
