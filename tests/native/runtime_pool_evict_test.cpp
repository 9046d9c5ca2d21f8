#include <gtest/gtest.h>

#include <random>

#include "expect.h"
#include "runtime/pool/pool.h"
#include "runtime_pool_fake.h"

namespace gpk::runtime {
namespace {

using fake::PoolFake;

constexpr std::size_t kChunk = std::size_t{64} << 10;

class PoolEvictTest : public ::testing::Test {
 protected:
  static PoolOptions options(std::size_t quota_chunks) {
    PoolOptions result;
    result.chunk_bytes = kChunk;
    result.region_bytes = 1024 * kChunk;
    result.small_max_bytes = std::size_t{32} << 10;
    result.quota_bytes = quota_chunks * kChunk;
    result.evict_from_bytes = 1;
    return result;
  }
  void TearDown() override { EXPECT_TRUE(device.errors.empty()) << device.errors.front(); }
  // Work on the block as the wiring does it.
  void write(Pool& pool, PoolBlock* block, Pool::Stream stream, std::uint64_t seed) {
    const PoolUse use(pool, block, stream);
    device.launch(stream, [this, at = block->address, bytes = block->bytes, seed] {
      device.fill(at, bytes, seed);
    });
  }
  void check(Pool& pool, PoolBlock* block, Pool::Stream stream, std::uint64_t seed) {
    const PoolUse use(pool, block, stream);
    device.launch(stream, [this, at = block->address, bytes = block->bytes, seed] {
      device.expect(at, bytes, seed);
    });
  }
  PoolFake device;
};

TEST_F(PoolEvictTest, ContentsSurviveAtTheSameAddress) {
  Pool pool(device, options(8));
  PoolBlock* block = pool.allocate(3 * kChunk - 7, 1);
  EXPECT_EQ(block->bytes, 3 * kChunk);
  const auto address = block->address;
  write(pool, block, 1, 42);
  EXPECT_EQ(pool.evict(block), 3 * kChunk);
  EXPECT_TRUE(pool.is_evicted(block));
  EXPECT_FALSE(device.is_mapped(address));
  PoolStats stats = pool.stats();
  EXPECT_EQ(stats.used_bytes, 0u);
  EXPECT_EQ(stats.evicted_bytes, 3 * kChunk);
  EXPECT_EQ(stats.host_bytes, 3 * kChunk);
  EXPECT_EQ(stats.num_evictions, 1u);
  EXPECT_EQ(pool.evict(block), 0u);  // already
  pool.restore(block, 1);
  EXPECT_FALSE(pool.is_evicted(block));
  check(pool, block, 1, 42);
  EXPECT_EQ(block->address, address);
  stats = pool.stats();
  EXPECT_EQ(stats.used_bytes, 3 * kChunk);
  EXPECT_EQ(stats.evicted_bytes, 0u);
  EXPECT_EQ(stats.restored_total_bytes, 3 * kChunk);
  device.run_all();
  pool.free(block);
  pool.trim();
  EXPECT_EQ(pool.stats().host_bytes, 0u);
  EXPECT_EQ(device.host_bytes(), 0u);
}

TEST_F(PoolEvictTest, LeastRecentlyUsedGoesFirst) {
  Pool pool(device, options(4));
  std::vector<PoolBlock*> blocks;
  for (std::uint64_t i = 0; i < 4; ++i) {
    blocks.push_back(pool.allocate(kChunk, 1));
    write(pool, blocks.back(), 1, i);
  }
  device.run_all();
  check(pool, blocks[0], 1, 0);
  pool.touch(blocks[1]);
  device.run_all();
  blocks.push_back(pool.allocate(kChunk, 1));
  EXPECT_TRUE(pool.is_evicted(blocks[2]));
  blocks.push_back(pool.allocate(kChunk, 1));
  EXPECT_TRUE(pool.is_evicted(blocks[3]));
  EXPECT_EQ(pool.stats().num_evictions, 2u);
  for (std::uint64_t i = 0; i < 4; ++i) check(pool, blocks[i], 1, i);
  device.run_all();
  for (PoolBlock* block : blocks) pool.free(block);
}

TEST_F(PoolEvictTest, IdleBlocksGoBeforeBusyOnesAndNobodyWaits) {
  Pool pool(device, options(2));
  PoolBlock* busy = pool.allocate(kChunk, 1);
  PoolBlock* idle = pool.allocate(kChunk, 2);
  write(pool, busy, 1, 1);  // stays in the queue
  write(pool, idle, 2, 2);
  device.run(2);
  PoolBlock* more = pool.allocate(kChunk, 3);
  EXPECT_FALSE(pool.is_evicted(busy));  // older, but in use
  EXPECT_TRUE(pool.is_evicted(idle));
  EXPECT_EQ(device.queued(1), 1u + 1u);  // its work and a mark
  // Now only busy ones: waited for.
  write(pool, more, 3, 3);
  PoolBlock* last = pool.allocate(kChunk, 4);
  EXPECT_TRUE(pool.is_evicted(busy));
  EXPECT_EQ(device.queued(1), 0u);
  pool.free(last);
  for (PoolBlock* block : {busy, idle, more}) {
    check(pool, block, 5, block == busy ? 1 : block == idle ? 2 : 3);
    device.run_all();
    pool.free(block, std::vector<Pool::Stream>{5});
  }
}

TEST_F(PoolEvictTest, OldUsesOfABusyStreamAreKnownToBeOver) {
  Pool pool(device, options(3));
  PoolBlock* a = pool.allocate(kChunk, 1);
  PoolBlock* b = pool.allocate(kChunk, 1);
  PoolBlock* c = pool.allocate(kChunk, 1);
  write(pool, a, 1, 1);
  write(pool, b, 1, 2);
  write(pool, c, 1, 3);
  device.run(1);
  PoolBlock* d = pool.allocate(kChunk, 2);  // evicts a; the stream is marked as of now
  EXPECT_TRUE(pool.is_evicted(a));
  write(pool, c, 1, 3);  // the stream is busy from here on
  const std::size_t waits = device.num_waits;
  PoolBlock* e = pool.allocate(kChunk, 2);
  EXPECT_TRUE(pool.is_evicted(b));  // used before the mark
  EXPECT_EQ(device.queued(1) > 0, true);
  EXPECT_EQ(device.num_waits, waits + 1);  // for the copy only
  device.run_all();
  for (PoolBlock* block : {a, b, c, d, e}) pool.free(block);
}

// Uses of an unmarked block get no tick of their own, but count nevertheless.
TEST_F(PoolEvictTest, UsesBeforeTheMarkAreKnown) {
  PoolOptions marked = options(3);
  marked.evict_from_bytes = 0;
  Pool pool(device, marked);
  PoolBlock* a = pool.allocate(kChunk, 1, {.evictable = true});
  PoolBlock* b = pool.allocate(kChunk, 1);
  PoolBlock* c = pool.allocate(kChunk, 2);
  write(pool, a, 1, 1);
  device.run(1);
  PoolBlock* d = pool.allocate(kChunk, 2);  // evicts a; stream 1 is marked as of now
  EXPECT_TRUE(pool.is_evicted(a));
  write(pool, b, 1, 2);  // after the mark, and not run yet
  pool.set_evictable(b, true);
  pool.set_evictable(c, true);
  PoolBlock* e = pool.allocate(kChunk, 2);
  EXPECT_FALSE(pool.is_evicted(b));
  EXPECT_TRUE(pool.is_evicted(c));
  device.run_all();
  check(pool, b, 1, 2);
  device.run_all();
  for (PoolBlock* block : {a, b, c, d, e}) pool.free(block);
}

TEST_F(PoolEvictTest, SeveralStreamsTakeTurnsWithoutTheDriver) {
  Pool pool(device, options(8));
  PoolBlock* block = pool.allocate(kChunk, 1);
  for (const Pool::Stream stream : {1, 2, 3, 4}) write(pool, block, stream, 5);
  const std::size_t calls = pool.stats().num_driver_calls;
  for (int i = 0; i < 10; ++i)
    for (const Pool::Stream stream : {1, 2, 3, 4}) const PoolUse use(pool, block, stream);
  EXPECT_EQ(pool.stats().num_driver_calls, calls);
  for (const Pool::Stream stream : {5, 6, 7}) write(pool, block, stream, 6);  // more than it knows
  pool.evict(block);  // waits for all of them
  check(pool, block, 1, 6);
  device.run_all();
  pool.free(block);
}

TEST_F(PoolEvictTest, TryReserveEvictsWhatIsIdleAndWaitsForNothing) {
  Pool pool(device, options(4));
  PoolBlock* idle = pool.allocate(2 * kChunk, 1);
  PoolBlock* busy = pool.allocate(2 * kChunk, 2);
  write(pool, busy, 2, 1);
  EXPECT_EQ(pool.try_reserve(3 * kChunk), nullptr);
  EXPECT_FALSE(pool.is_evicted(busy));
  EXPECT_GT(device.queued(2), 0u);
  PoolArena* arena = pool.try_reserve(2 * kChunk);
  ASSERT_NE(arena, nullptr);
  EXPECT_TRUE(pool.is_evicted(idle));
  EXPECT_EQ(pool.stats().set_aside_bytes, 2 * kChunk);
  EXPECT_GT(device.queued(2), 0u);
  pool.close(arena);
  EXPECT_EQ(pool.stats().set_aside_bytes, 0u);
  device.run_all();
  for (PoolBlock* block : {idle, busy}) pool.free(block);
}

TEST_F(PoolEvictTest, TheDefaultCanChange) {
  Pool pool(device, options(4));
  pool.set_evict_from(0);
  EXPECT_EQ(pool.evict_from(), 0u);
  PoolBlock* stays = pool.allocate(2 * kChunk, 1);
  pool.set_evict_from(2 * kChunk);
  PoolBlock* small = pool.allocate(kChunk, 1);
  EXPECT_EQ(kind_of([&] { pool.allocate(2 * kChunk, 1); }), Error::Kind::kMemory);
  pool.free(stays);
  PoolBlock* leaves = pool.allocate(2 * kChunk, 1);
  PoolBlock* more = pool.allocate(2 * kChunk, 1);
  EXPECT_TRUE(pool.is_evicted(leaves));
  for (PoolBlock* block : {small, leaves, more}) pool.free(block);
}

TEST_F(PoolEvictTest, PinnedBlocksStay) {
  Pool pool(device, options(2));
  PoolBlock* a = pool.allocate(kChunk, 1);
  PoolBlock* b = pool.allocate(kChunk, 1);
  pool.pin(a);
  pool.pin(a);
  EXPECT_EQ(kind_of([&] { pool.evict(a); }), Error::Kind::kState);
  PoolBlock* c = pool.allocate(kChunk, 1);
  EXPECT_TRUE(pool.is_evicted(b));
  EXPECT_EQ(kind_of([&] {
              pool.pin(c);
              pool.allocate(kChunk, 1);
            }),
            Error::Kind::kMemory);
  EXPECT_EQ(kind_of([&] { pool.restore(b, 1); }), Error::Kind::kMemory);
  EXPECT_FALSE(pool.prefetch(b));
  pool.unpin(a);
  EXPECT_EQ(kind_of([&] { pool.evict(a); }), Error::Kind::kState);
  pool.unpin(a);
  EXPECT_EQ(pool.evict(a), kChunk);
  pool.pin(b);  // restored completely
  EXPECT_FALSE(pool.is_evicted(b));
  EXPECT_EQ(device.queued(PoolFake::kCopyStream), 0u);
  for (PoolBlock* block : {a, b, c}) pool.free(block);
}

TEST_F(PoolEvictTest, OtherStreamsWaitForTheWayBack) {
  Pool pool(device, options(8));
  PoolBlock* block = pool.allocate(2 * kChunk, 1);
  write(pool, block, 1, 11);
  pool.evict(block);
  pool.acquire(block, 2);
  device.launch(2, [&] { device.expect(block->address, 2 * kChunk, 11); });
  pool.release(block);
  check(pool, block, 3, 11);
  EXPECT_FALSE(device.step(3));                       // the copy is in the queue of stream 2
  pool.free(block, std::vector<Pool::Stream>{2, 3});  // host memory stays until then
  device.run_all();
  pool.trim();
  EXPECT_EQ(pool.stats().host_bytes, 0u);
  EXPECT_EQ(pool.stats().reserved_bytes, 0u);
}

TEST_F(PoolEvictTest, PrefetchGoesBesideTheWork) {
  Pool pool(device, options(8));
  PoolBlock* block = pool.allocate(2 * kChunk, 1);
  write(pool, block, 1, 12);
  pool.evict(block);
  EXPECT_TRUE(pool.prefetch(block));
  EXPECT_TRUE(pool.prefetch(block));
  EXPECT_EQ(pool.stats().num_restores, 1u);
  EXPECT_GT(device.queued(PoolFake::kCopyStream), 0u);
  check(pool, block, 1, 12);
  EXPECT_FALSE(device.step(1));
  device.run_all();
  pool.free(block);
  EXPECT_TRUE(pool.prefetch(pool.allocate(100, 1)));
}

TEST_F(PoolEvictTest, ClassesGoInOrderAndGuardHigherOnes) {
  Pool pool(device, options(3));
  PoolAccount* best_effort = pool.open_account(0, PoolClass::kBestEffort);
  PoolAccount* guaranteed = pool.open_account(0, PoolClass::kGuaranteed);
  PoolBlock* g = pool.allocate(kChunk, 1, {.account = guaranteed});
  PoolBlock* n = pool.allocate(kChunk, 1);
  PoolBlock* e = pool.allocate(kChunk, 1, {.account = best_effort});
  PoolBlock* n2 = pool.allocate(kChunk, 1);
  EXPECT_TRUE(pool.is_evicted(e));  // youngest, but of the lowest class
  EXPECT_EQ(kind_of([&] { pool.restore(e, 1); }), Error::Kind::kMemory);
  PoolBlock* g2 = pool.allocate(kChunk, 1, {.account = guaranteed});
  EXPECT_TRUE(pool.is_evicted(n));
  PoolBlock* g3 = pool.allocate(kChunk, 1, {.account = guaranteed});
  EXPECT_TRUE(pool.is_evicted(n2));
  EXPECT_EQ(kind_of([&] { pool.allocate(kChunk, 1); }), Error::Kind::kMemory);
  PoolBlock* g4 = pool.allocate(kChunk, 1, {.account = guaranteed});
  EXPECT_TRUE(pool.is_evicted(g));
  EXPECT_EQ(guaranteed->stats().used_bytes, 4 * kChunk);  // evicted ones are still theirs
  for (PoolBlock* block : {g, n, e, n2, g2, g3, g4}) pool.free(block);
  EXPECT_EQ(guaranteed->stats().used_bytes, 0u);
}

TEST_F(PoolEvictTest, BlocksThatShareChunksFreeTheWholeOnes) {
  PoolOptions opts = options(8);
  opts.evict_from_bytes = 0;
  Pool pool(device, opts);
  PoolBlock* before = pool.allocate(kChunk / 2 + 512, 1);
  PoolBlock* block = pool.allocate(3 * kChunk, 1);  // from the middle of a chunk on
  PoolBlock* small = pool.allocate(100, 1);
  EXPECT_TRUE(pool.set_evictable(block, true));
  EXPECT_FALSE(pool.set_evictable(before, true));
  EXPECT_FALSE(pool.set_evictable(small, true));
  write(pool, before, 1, 1);
  write(pool, block, 1, 2);
  EXPECT_EQ(pool.evict(before), 0u);
  EXPECT_EQ(pool.evict(small), 0u);
  const std::size_t used = pool.stats().used_bytes;
  EXPECT_EQ(pool.evict(block), 2 * kChunk);
  EXPECT_EQ(pool.stats().used_bytes, used - 2 * kChunk);
  check(pool, before, 1, 1);
  check(pool, block, 1, 2);
  pool.evict(block);
  pool.free(block);  // three ranges: hole, void, hole
  device.run_all();
  PoolBlock* again = pool.allocate(3 * kChunk, 1);
  EXPECT_EQ(pool.stats().reserved_bytes, device.physical_bytes());
  for (PoolBlock* each : {before, small, again}) pool.free(each);
  pool.trim();
  EXPECT_EQ(pool.stats().reserved_bytes, 0u);
}

TEST_F(PoolEvictTest, ReservedAndPrivateBlocksAreNotEvicted) {
  Pool pool(device, options(4));
  PoolArena* reserved = pool.reserve(kChunk);
  PoolArena* captured = pool.open_private();
  PoolBlock* a = pool.allocate(kChunk, 1, {.arena = reserved});
  PoolBlock* b = pool.allocate(kChunk, 1, {.arena = captured});
  EXPECT_EQ(kind_of([&] { pool.evict(a); }), Error::Kind::kState);
  EXPECT_EQ(kind_of([&] { pool.evict(b); }), Error::Kind::kState);
  EXPECT_EQ(kind_of([&] { pool.allocate(3 * kChunk, 1); }), Error::Kind::kMemory);
  pool.close(reserved);
  pool.close(captured);
  PoolBlock* c = pool.allocate(3 * kChunk, 1);
  EXPECT_EQ(pool.stats().num_evictions, 1u);
  for (PoolBlock* block : {a, b, c}) pool.free(block);
}

TEST_F(PoolEvictTest, ReserveAndSetQuotaEvict) {
  Pool pool(device, options(6));
  std::vector<PoolBlock*> blocks;
  for (std::uint64_t i = 0; i < 6; ++i) {
    blocks.push_back(pool.allocate(kChunk, 1));
    write(pool, blocks.back(), 1, i);
  }
  PoolArena* arena = pool.reserve(2 * kChunk);
  EXPECT_EQ(pool.stats().num_evictions, 2u);
  pool.set_quota(4 * kChunk);
  EXPECT_EQ(pool.stats().num_evictions, 4u);
  EXPECT_EQ(device.physical_bytes(), 4 * kChunk);
  pool.set_quota(3 * kChunk);
  EXPECT_EQ(kind_of([&] { pool.set_quota(kChunk); }), Error::Kind::kMemory);  // it is reserved
  pool.close(arena);
  for (std::uint64_t i = 0; i < 6; ++i) check(pool, blocks[i], 1, i);
  device.run_all();
  for (PoolBlock* block : blocks) pool.free(block);
}

TEST_F(PoolEvictTest, HostMemoryHasALimitAndIsReused) {
  PoolOptions opts = options(8);
  opts.max_host_bytes = 3 * kChunk;
  Pool pool(device, opts);
  PoolBlock* a = pool.allocate(2 * kChunk, 1);
  PoolBlock* b = pool.allocate(2 * kChunk, 1);
  pool.evict(a);
  EXPECT_EQ(kind_of([&] { pool.evict(b); }), Error::Kind::kMemory);
  EXPECT_EQ(kind_of([&] { pool.allocate(8 * kChunk, 1); }), Error::Kind::kMemory);
  pool.pin(a);
  pool.unpin(a);
  pool.evict(b);  // in the memory that a had
  EXPECT_EQ(device.host_bytes(), 2 * kChunk);
  pool.pin(b);
  pool.unpin(b);
  PoolBlock* c = pool.allocate(3 * kChunk, 1);
  pool.evict(c);  // what is kept makes way
  EXPECT_EQ(device.host_bytes(), 3 * kChunk);
  device.max_host_bytes = 0;
  for (PoolBlock* block : {a, b, c}) pool.free(block);
}

// Arrays worth 1.5 times the quota, in both orders.
TEST_F(PoolEvictTest, MoreThanTheQuotaInLruAndRandomOrder) {
  device.quota_bytes = 16 * kChunk;
  Pool pool(device, options(16));
  std::vector<PoolBlock*> blocks;
  for (std::uint64_t i = 0; i < 12; ++i) {
    blocks.push_back(pool.allocate(2 * kChunk, 1 + i % 2));
    write(pool, blocks.back(), 1 + i % 2, i);
  }
  std::minstd_rand random(5);
  std::vector<std::uint64_t> seeds(12);
  for (std::uint64_t i = 0; i < 12; ++i) seeds[i] = i;
  for (std::size_t round = 0; round < 200; ++round) {
    const std::size_t i = round < 100 ? round % 12 : random() % 12;
    check(pool, blocks[i], 1 + i % 2, seeds[i]);
    if (random() % 3 == 0) write(pool, blocks[i], 1 + i % 2, seeds[i] = 1000 + round);
    if (random() % 4 == 0) device.step(1 + random() % 2);
  }
  device.run_all();
  EXPECT_GT(pool.stats().num_evictions, 50u);
  EXPECT_EQ(device.peak_physical_bytes(), 16 * kChunk);
  for (PoolBlock* block : blocks) pool.free(block);
  pool.trim();
  EXPECT_EQ(device.physical_bytes(), 0u);
  EXPECT_EQ(device.host_bytes(), 0u);
}

TEST_F(PoolEvictTest, StreamsMayDieWhileBlocksAreAway) {
  Pool pool(device, options(2));
  PoolBlock* a = pool.allocate(kChunk, 1);
  write(pool, a, 1, 1);
  check(pool, a, 2, 1);  // after stream 1 by luck of the order in which they run
  device.run(1);
  pool.forget_stream(1);
  pool.forget_stream(2);
  pool.evict(a);
  check(pool, a, 1, 1);  // another stream 1
  pool.forget_stream(1);
  check(pool, a, 3, 1);
  PoolBlock* b = pool.allocate(2 * kChunk, 1);
  EXPECT_TRUE(pool.is_evicted(a));
  pool.free(a);
  pool.free(b);
  device.run_all();
  pool.trim();
  EXPECT_LE(device.num_events(), 1u);  // a mark in a live stream
}

}  // namespace
}  // namespace gpk::runtime
