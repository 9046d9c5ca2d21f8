#include "runtime/pool/pool.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime_pool_fixture.h"

namespace gpk::runtime {
namespace {

using namespace small_pool;

class PoolTest : public Fixture {};

TEST_F(PoolTest, SizeClassesHoldTheRequestWithLittleWaste) {
  double waste = 0;
  double count = 0;
  for (std::size_t bytes = 1; bytes <= PoolSizeClass::kMaxBytes; bytes += bytes < 4096 ? 1 : 97) {
    const std::uint32_t size_class = PoolSizeClass::of(bytes);
    ASSERT_LT(size_class, kNumPoolSizeClasses);
    const std::size_t size = PoolSizeClass::bytes(size_class);
    ASSERT_GE(size, bytes);
    ASSERT_EQ(size % 256, 0u);
    ASSERT_TRUE(size_class == 0 || PoolSizeClass::bytes(size_class - 1) < bytes);
    ASSERT_TRUE(bytes <= 1024 || size <= bytes + bytes / 4);
    if (bytes > 4096) {
      waste += static_cast<double>(size - bytes) / static_cast<double>(size);
      ++count;
    }
    ASSERT_EQ(PoolSizeClass::span_bytes(size_class) % kPoolAlignment, 0u);
    ASSERT_GE(PoolSizeClass::num_per_span(size_class), 1u);
  }
  EXPECT_EQ(PoolSizeClass::bytes(kNumPoolSizeClasses - 1), PoolSizeClass::kMaxBytes);
  EXPECT_LE(waste / count, 0.125);
}

TEST_F(PoolTest, ReusesOnTheSameStreamAtOnce) {
  Pool pool(device, options());
  for (const std::size_t bytes : {std::size_t{1000}, kLarge, 5 * kChunk + 1}) {
    PoolBlock* first = pool.allocate(bytes, 7);
    EXPECT_EQ(first->address % 256, 0u);
    EXPECT_GE(first->bytes, bytes);
    const auto address = first->address;
    pool.free(first);
    PoolBlock* second = pool.allocate(bytes, 7);
    EXPECT_EQ(second->address, address);
    pool.free(second);
  }
  EXPECT_EQ(pool.stats().num_allocations, 6u);
  EXPECT_EQ(pool.stats().num_reuses, 3u);
  EXPECT_EQ(device.num_stream_waits, 0u);
}

TEST_F(PoolTest, StatsAddUp) {
  Pool pool(device, options());
  PoolBlock* a = pool.allocate(512, 0);
  PoolBlock* b = pool.allocate(1024, 0);
  PoolBlock* c = pool.allocate(kLarge, 0);
  PoolStats stats = pool.stats();
  EXPECT_EQ(stats.used_bytes, 1536u + kLarge);
  EXPECT_EQ(stats.peak_used_bytes, 1536u + kLarge);
  EXPECT_EQ(stats.num_blocks, 3u);
  EXPECT_EQ(stats.reserved_bytes, device.physical_bytes());
  EXPECT_EQ(stats.used_bytes + stats.cached_bytes, stats.reserved_bytes);
  pool.free(a);
  pool.free(c);
  EXPECT_GE(pool.stats().largest_free_bytes, kLarge);
  PoolBlock* d = pool.allocate(768, 0);
  EXPECT_EQ(pool.stats().used_bytes, 1024u + 768u);
  EXPECT_EQ(pool.stats().peak_used_bytes, 1536u + kLarge);
  pool.free(b);
  pool.free(d);
  EXPECT_EQ(pool.stats().used_bytes, 0u);
  EXPECT_EQ(pool.stats().num_blocks, 0u);
  EXPECT_EQ(pool.trim(), device.peak_physical_bytes());
  EXPECT_EQ(pool.stats().reserved_bytes, 0u);
  EXPECT_EQ(device.physical_bytes(), 0u);
  EXPECT_GT(pool.stats().num_driver_calls, 0u);
}

TEST_F(PoolTest, PeakIsExactWithOneThread) {
  Pool pool(device, options());
  std::vector<PoolBlock*> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(pool.allocate(256, 0));
  for (PoolBlock* block : blocks) pool.free(block);
  PoolBlock* large = pool.allocate(kLarge, 0);  // later, when the small ones are gone
  EXPECT_EQ(pool.stats().peak_used_bytes, std::max<std::size_t>(25600, kLarge));
  blocks.clear();
  for (int i = 0; i < 100; ++i) blocks.push_back(pool.allocate(256, 0));
  EXPECT_EQ(pool.stats().peak_used_bytes, 25600 + kLarge);
  for (PoolBlock* block : blocks) pool.free(block);
  EXPECT_EQ(pool.stats().peak_used_bytes, 25600 + kLarge);
  pool.free(large);
}

TEST_F(PoolTest, HolesJoinAndSplit) {
  Pool pool(device, options(4));
  std::vector<PoolBlock*> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(pool.allocate(kChunk, 0));
  EXPECT_EQ(pool.stats().reserved_bytes, 4 * kChunk);
  for (const int i : {2, 0, 3, 1}) pool.free(blocks[static_cast<std::size_t>(i)]);
  EXPECT_EQ(pool.stats().largest_free_bytes, 4 * kChunk);
  PoolBlock* all = pool.allocate(4 * kChunk, 0);
  EXPECT_EQ(device.num_creates, 4u);
  EXPECT_EQ(device.num_maps, 4u);
  pool.free(all);
}

TEST_F(PoolTest, BestFitTakesTheSmallestHole) {
  Pool pool(device, options());
  PoolBlock* big = pool.allocate(3 * kLarge, 0);
  PoolBlock* wall = pool.allocate(kLarge, 0);
  PoolBlock* fits = pool.allocate(kLarge + 512, 0);
  PoolBlock* end = pool.allocate(kLarge, 0);
  const auto address = fits->address;
  pool.free(big);
  pool.free(fits);
  PoolBlock* again = pool.allocate(kLarge, 0);
  EXPECT_EQ(again->address, address);
  for (PoolBlock* block : {wall, end, again}) pool.free(block);
}

TEST_F(PoolTest, GrowsInPlaceBesideAHole) {
  Pool pool(device, options());
  PoolBlock* block = pool.allocate(kChunk + kChunk / 2, 0);
  PoolBlock* next = pool.allocate(kChunk, 0);  // half a chunk is mapped, one more is added
  EXPECT_EQ(next->address, block->address + block->bytes);
  EXPECT_EQ(pool.stats().reserved_bytes, 3 * kChunk);
  pool.free(block);
  pool.free(next);
}

TEST_F(PoolTest, FragmentsAreMappedElsewhere) {
  Pool pool(device, options(8));
  std::vector<PoolBlock*> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(pool.allocate(kChunk, 0));
  for (std::size_t i = 0; i < 8; i += 2) pool.free(blocks[i]);
  EXPECT_EQ(pool.stats().largest_free_bytes, kChunk);
  PoolBlock* large = pool.allocate(4 * kChunk, 0);  // no hole fits, the quota is full
  EXPECT_EQ(pool.stats().reserved_bytes, 8 * kChunk);
  EXPECT_EQ(device.num_creates, 8u);
  for (std::size_t i = 1; i < 8; i += 2) pool.free(blocks[i]);
  pool.free(large);
}

TEST_F(PoolTest, QuotaIsAHardLimitAndSaysAllNumbers) {
  device.quota_bytes = 4 * kChunk;
  Pool pool(device, options(4));
  PoolBlock* block = pool.allocate(3 * kChunk, 0);
  try {
    pool.allocate(2 * kChunk - 9, 0);
    ADD_FAILURE();
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kMemory);
    EXPECT_EQ(error.numbers().asked_bytes, 2 * kChunk - 9);  // and not what it was rounded to
    EXPECT_EQ(error.numbers().used_bytes, 3 * kChunk);
    EXPECT_EQ(error.numbers().limit_bytes, 4 * kChunk);
    EXPECT_EQ(error.numbers().cached_bytes + error.numbers().used_bytes,
              error.numbers().reserved_bytes);
    EXPECT_NE(std::string(error.what()).find("asked 127.99 KiB (131063 bytes)"), std::string::npos);
    EXPECT_FALSE(error.numbers().account_refused);
  }
  EXPECT_EQ(kind_of([&] { pool.allocate(100 * kChunk, 0); }), Error::Kind::kMemory);
  EXPECT_EQ(kind_of([&] { pool.allocate(~std::size_t{0} - 5, 0); }), Error::Kind::kMemory);
  PoolBlock* rest = pool.allocate(kChunk, 0);
  pool.free(block);
  pool.free(rest);
}

TEST_F(PoolTest, AnImpossibleRequestDoesNotEmptyTheDevice) {
  device.memory_bytes = 10 * kChunk;
  Pool pool(device, options());
  PoolBlock* block = pool.allocate(2 * kChunk, 0);
  EXPECT_EQ(kind_of([&] { pool.allocate(1000 * kChunk, 0); }), Error::Kind::kMemory);
  EXPECT_EQ(device.peak_physical_bytes(), 2 * kChunk);
  EXPECT_EQ(kind_of([&] { pool.allocate(9 * kChunk, 0); }), Error::Kind::kMemory);
  EXPECT_EQ(device.physical_bytes(), 2 * kChunk);  // what was gathered in vain went back
  PoolBlock* rest = pool.allocate(8 * kChunk, 0);
  pool.free(block);
  pool.free(rest);
}

TEST_F(PoolTest, TheDeviceMayHaveLessThanTheQuota) {
  device.memory_bytes = 4 * kChunk;
  Pool pool(device, options(100));
  PoolBlock* a = pool.allocate(2 * kChunk, 0);
  PoolBlock* b = pool.allocate(2 * kChunk, 1);
  EXPECT_EQ(kind_of([&] { pool.allocate(kChunk, 0); }), Error::Kind::kMemory);
  pool.free(b);
  PoolBlock* c = pool.allocate(kChunk, 0);  // from the other stream's hole
  pool.free(a);
  pool.free(c);
  PoolBlock* all = pool.allocate(4 * kChunk, 0);
  pool.free(all);
}

TEST_F(PoolTest, AnotherStreamsHoleOnlyUnderTheQuotaAndInOrder) {
  Pool pool(device, options(2));
  PoolBlock* first = pool.allocate(kChunk, 1);
  const auto address = first->address;
  device.launch(1, [&] { device.fill(address, kChunk, 5); });
  device.launch(1, [&] { device.expect(address, kChunk, 5); });
  pool.free(first);
  PoolBlock* second = pool.allocate(kChunk, 2);
  EXPECT_NE(second->address, address);  // there was room
  EXPECT_EQ(device.num_stream_waits, 0u);
  PoolBlock* third = pool.allocate(kChunk, 2);
  EXPECT_EQ(third->address, address);
  EXPECT_EQ(device.num_stream_waits, 1u);
  EXPECT_EQ(device.num_waits, 0u);  // the host did not wait
  device.launch(2, [&] { device.fill(address, kChunk, 6); });
  EXPECT_FALSE(device.step(2));  // waits for stream 1
  device.run_all();
  pool.free(second);
  pool.free(third);
}

TEST_F(PoolTest, ABlockUsedElsewhereWaitsForItsEvents) {
  Pool pool(device, options());
  for (const std::size_t bytes : {std::size_t{1000}, kLarge}) {
    PoolBlock* block = pool.allocate(bytes, 1);
    const auto address = block->address;
    const std::vector<PoolBlock*> others = {pool.allocate(bytes, 1), pool.allocate(bytes, 1)};
    device.launch(2, [] {});
    const std::vector<Pool::Stream> streams = {2, 3, 1, 2};
    pool.free(block, streams);
    EXPECT_EQ(pool.stats().pending_bytes, block->bytes);
    PoolBlock* other = pool.allocate(bytes, 1);
    EXPECT_NE(other->address, address);
    pool.free(other);
    device.run_all();
    pool.trim();
    EXPECT_EQ(pool.stats().pending_bytes, 0u);
    for (PoolBlock* kept : others) pool.free(kept);
  }
  pool.trim();
  EXPECT_EQ(pool.stats().reserved_bytes, 0u);
  EXPECT_EQ(device.num_events(), 0u);
}

TEST_F(PoolTest, PendingBlocksAreUsedWhenTheirEventsAreDone) {
  Pool pool(device, options(1));
  PoolBlock* block = pool.allocate(kChunk, 1);
  const auto address = block->address;
  device.launch(2, [] {});
  pool.free(block, std::vector<Pool::Stream>{2});
  device.run(2);
  block = pool.allocate(kChunk, 1);  // polled, not waited for
  EXPECT_EQ(block->address, address);
  EXPECT_EQ(device.num_waits, 0u);
  device.launch(2, [] {});
  pool.free(block, std::vector<Pool::Stream>{2});
  block = pool.allocate(kChunk, 1);  // nothing else: waited for
  EXPECT_EQ(block->address, address);
  EXPECT_GT(device.num_waits, 0u);
  pool.free(block);
}

TEST_F(PoolTest, EventsArePolledInBatches) {
  Pool pool(device, options());
  PoolBlock* last = pool.allocate(256, 1);
  device.launch(2, [] {});
  for (int i = 0; i < 63; ++i) {
    PoolBlock* block = pool.allocate(kLarge, 1);
    pool.free(block, std::vector<Pool::Stream>{2});
  }
  EXPECT_EQ(pool.stats().pending_bytes, 63 * kLarge);
  device.run(2);
  EXPECT_EQ(pool.stats().pending_bytes, 63 * kLarge);
  pool.free(last, std::vector<Pool::Stream>{2});  // the 64th
  EXPECT_EQ(pool.stats().pending_bytes, 0u);
}

TEST_F(PoolTest, TrimWaitsForTheWorkOnWhatItUnmaps) {
  Pool pool(device, options());
  PoolBlock* block = pool.allocate(3 * kChunk, 1);
  const auto address = block->address;
  device.launch(1, [&] { device.fill(address, 3 * kChunk, 1); });
  pool.free(block);
  EXPECT_EQ(pool.trim(), 3 * kChunk);
  EXPECT_EQ(device.queued(1), 0u);
  EXPECT_FALSE(device.is_mapped(address));
}

TEST_F(PoolTest, ForgottenStreams) {
  Pool pool(device, options(8));
  std::vector<PoolBlock*> kept;
  for (int i = 0; i < 10; ++i) {
    PoolBlock* small = pool.allocate(300, 5);
    PoolBlock* large = pool.allocate(kLarge, 5);
    kept.push_back(pool.allocate(300, 5));
    device.launch(5, [&device = device, at = large->address] { device.fill(at, kLarge, 9); });
    pool.free(small);
    pool.free(large);
    pool.forget_stream(5);
    pool.forget_stream(5);  // unknown now
    // The id lives on as another stream; the old work still runs.
    PoolBlock* block = pool.allocate(kLarge, 5);
    pool.free(block);
    const auto address = kept.back()->address;
    pool.free(kept.back());  // after its stream
    kept.pop_back();
    block = pool.allocate(300, 5);
    EXPECT_NE(block->address, address);  // the old stream may still use it
    pool.free(block);
    device.run_all();
  }
  pool.forget_stream(77);
  pool.trim();
  EXPECT_EQ(pool.stats().reserved_bytes, 0u);
  EXPECT_EQ(device.num_events(), 0u);
}

TEST_F(PoolTest, ADeadStreamsMemoryIsForAllWhenItsWorkIsDone) {
  Pool pool(device, options(1));
  PoolBlock* block = pool.allocate(kChunk, 1);
  device.launch(1, [] {});
  pool.free(block);
  pool.forget_stream(1);
  block = pool.allocate(kChunk, 2);  // before: in order
  EXPECT_EQ(device.num_stream_waits, 1u);
  pool.free(block);
  pool.forget_stream(2);
  device.run_all();
  block = pool.allocate(kChunk, 3);  // after: nothing to wait for
  EXPECT_EQ(device.num_stream_waits, 1u);
  pool.free(block);
}

TEST_F(PoolTest, SetQuota) {
  Pool pool(device, options(8));
  PoolBlock* a = pool.allocate(2 * kChunk, 0);
  PoolBlock* b = pool.allocate(4 * kChunk, 0);
  pool.free(b);
  pool.set_quota(3 * kChunk);  // takes what is free
  EXPECT_EQ(device.physical_bytes(), 3 * kChunk);
  device.quota_bytes = 3 * kChunk;
  EXPECT_EQ(kind_of([&] { pool.set_quota(kChunk); }), Error::Kind::kMemory);
  EXPECT_EQ(pool.stats().quota_bytes, 3 * kChunk);
  EXPECT_EQ(kind_of([&] { pool.set_quota(kChunk - 1); }), Error::Kind::kValue);
  EXPECT_EQ(kind_of([&] { pool.allocate(2 * kChunk, 0); }), Error::Kind::kMemory);
  pool.set_quota(0);
  device.quota_bytes = 0;
  b = pool.allocate(20 * kChunk, 0);
  pool.free(a);
  pool.free(b);
}

TEST_F(PoolTest, CollectIsCalledWhenAllElseFails) {
  PoolBlock* garbage = nullptr;
  Pool* target = nullptr;
  int calls = 0;
  PoolOptions opts = options(2);
  opts.collect = [&] {
    ++calls;
    if (garbage != nullptr) target->free(std::exchange(garbage, nullptr));
  };
  Pool pool(device, opts);
  target = &pool;
  garbage = pool.allocate(2 * kChunk, 0);
  PoolBlock* block = pool.allocate(2 * kChunk, 1);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(kind_of([&] { pool.allocate(kLarge, 0); }), Error::Kind::kMemory);
  EXPECT_EQ(calls, 2);
  pool.free(block);
}

TEST_F(PoolTest, BadArguments) {
  Pool pool(device, options());
  EXPECT_EQ(kind_of([&] { pool.allocate(0, 0); }), Error::Kind::kValue);
  EXPECT_EQ(kind_of([&] { pool.free(nullptr); }), Error::Kind::kValue);
  for (const std::size_t bytes : {std::size_t{10}, kLarge}) {
    PoolBlock* block = pool.allocate(bytes, 0);
    pool.free(block);
    EXPECT_EQ(kind_of([&] { pool.free(block); }), Error::Kind::kValue);
    EXPECT_EQ(kind_of([&] { pool.evict(block); }), Error::Kind::kValue);
    EXPECT_EQ(kind_of([&] { pool.restore(block, 0); }), Error::Kind::kValue);
    EXPECT_EQ(kind_of([&] { pool.pin(block); }), Error::Kind::kValue);
    EXPECT_EQ(kind_of([&] { pool.set_evictable(block, true); }), Error::Kind::kValue);
    EXPECT_EQ(kind_of([&] { pool.prefetch(block); }), Error::Kind::kValue);
    EXPECT_EQ(kind_of([&] { static_cast<void>(pool.is_evicted(block)); }), Error::Kind::kValue);
  }
  PoolOptions bad = options();
  bad.chunk_bytes = 3 * 4096;
  EXPECT_EQ(kind_of([&] { const Pool other(device, bad); }), Error::Kind::kValue);
  bad.chunk_bytes = 2048;
  EXPECT_EQ(kind_of([&] { const Pool other(device, bad); }), Error::Kind::kValue);
  bad = options();
  bad.small_max_bytes = 2 * PoolSizeClass::kMaxBytes;
  EXPECT_EQ(kind_of([&] { const Pool other(device, bad); }), Error::Kind::kValue);
  bad = options();
  bad.quota_bytes = 100;
  EXPECT_EQ(kind_of([&] { const Pool other(device, bad); }), Error::Kind::kValue);
}

TEST_F(PoolTest, SnapshotCoversWhatIsReserved) {
  Pool pool(device, options());
  PoolAccount* account = pool.open_account(0);
  PoolBlock* a = pool.allocate(kLarge, 3, {.account = account});
  PoolBlock* b = pool.allocate(512, 4);
  PoolBlock* c = pool.allocate(2 * kChunk, 3, {.evictable = true});
  PoolBlock* d = pool.allocate(kLarge, 3);
  pool.evict(c);
  device.launch(8, [] {});
  pool.free(d, std::vector<Pool::Stream>{8});
  std::size_t mapped = 0;
  std::map<PoolPiece::Kind, std::size_t> count;
  for (const PoolPiece& piece : pool.snapshot()) {
    ++count[piece.kind];
    if (piece.kind != PoolPiece::Kind::kEvicted) mapped += piece.bytes;
    if (piece.address == a->address) {
      EXPECT_EQ(piece.account, account->id());
      EXPECT_EQ(piece.stream, 3u);
    }
  }
  EXPECT_EQ(count[PoolPiece::Kind::kUsed], 2u);
  EXPECT_EQ(count[PoolPiece::Kind::kEvicted], 1u);
  EXPECT_EQ(count[PoolPiece::Kind::kPending], 1u);
  EXPECT_GE(count[PoolPiece::Kind::kCached], 1u);
  EXPECT_EQ(mapped, pool.stats().reserved_bytes - pool.stats().spare_bytes);
  for (PoolBlock* block : {a, b, c}) pool.free(block);
}

}  // namespace
}  // namespace gpk::runtime
