// Accounts, reservations, captures; devices without virtual memory; the ends of pools and threads.
#include <gtest/gtest.h>

#include <random>
#include <thread>
#include <vector>

#include "runtime/pool/pool.h"
#include "runtime_pool_fixture.h"

namespace gpk::runtime {
namespace {

using namespace small_pool;

class PoolArenaTest : public Fixture {};

TEST_F(PoolArenaTest, AccountsRefuseBeyondTheirLimit) {
  Pool pool(device, options());
  PoolAccount* account = pool.open_account(100 * kKiB, PoolClass::kBurstable, "tenant");
  PoolAccount* other = pool.open_account(0);
  PoolBlock* a = pool.allocate(60 * kKiB, 0, {.account = account});
  EXPECT_EQ(account->stats().used_bytes, 60 * kKiB);
  try {
    pool.allocate(41 * kKiB, 0, {.account = account});
    ADD_FAILURE();
  } catch (const OutOfMemory& error) {
    EXPECT_TRUE(error.numbers().account_refused);
    EXPECT_EQ(error.numbers().account_used_bytes, 60 * kKiB);
    EXPECT_EQ(error.numbers().account_limit_bytes, 100 * kKiB);
    EXPECT_NE(std::string(error.what()).find("account 'tenant' has used 60.00 KiB of its limit of"),
              std::string::npos);
  }
  PoolBlock* b = pool.allocate(41 * kKiB, 0, {.account = other});  // the neighbour is unaffected
  PoolBlock* c = pool.allocate(1000, 0, {.account = account});
  EXPECT_EQ(account->stats().used_bytes, 61 * kKiB);
  EXPECT_EQ(account->stats().num_refused, 1u);
  ASSERT_EQ(pool.account_stats().size(), 2u);
  EXPECT_EQ(pool.account_stats()[0].name, "tenant");
  EXPECT_EQ(pool.account_stats()[0].used_bytes, 61 * kKiB);
  EXPECT_EQ(kind_of([&] { pool.close_account(account); }), Error::Kind::kState);
  pool.free(a);
  pool.free(c, std::vector<Pool::Stream>{4});
  EXPECT_EQ(account->stats().used_bytes, 0u);
  EXPECT_EQ(account->stats().peak_bytes, 61 * kKiB);
  account->set_limit(10);
  EXPECT_EQ(kind_of([&] { pool.allocate(1000, 0, {.account = account}); }), Error::Kind::kMemory);
  pool.close_account(account);
  EXPECT_EQ(kind_of([&] { pool.close_account(account); }), Error::Kind::kValue);
  pool.free(b);
}

TEST_F(PoolArenaTest, AReservedAccountUsesWhatItHasFirst) {
  Pool pool(device, options());
  PoolAccount* parent = pool.open_account(120 * kKiB, PoolClass::kGuaranteed, "parent");
  EXPECT_EQ(pool.open_reservation(*parent, 121 * kKiB), nullptr);
  PoolAccount* reserved = pool.open_reservation(*parent, 60 * kKiB);
  ASSERT_NE(reserved, nullptr);
  EXPECT_EQ(reserved->evict_class(), PoolClass::kGuaranteed);
  EXPECT_EQ(parent->stats().used_bytes, 60 * kKiB);
  PoolBlock* a = pool.allocate(50 * kKiB, 0, {.account = reserved});
  EXPECT_EQ(parent->stats().used_bytes, 60 * kKiB);
  PoolBlock* b = pool.allocate(40 * kKiB, 0, {.account = reserved});  // 30 KiB beyond
  EXPECT_EQ(parent->stats().used_bytes, 90 * kKiB);
  try {
    pool.allocate(40 * kKiB, 0, {.account = reserved});
    ADD_FAILURE();
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.numbers().account, "parent");
    EXPECT_EQ(error.numbers().account_used_bytes, 90 * kKiB);
  }
  EXPECT_EQ(parent->stats().num_refused, 1u);
  pool.free(a);
  EXPECT_EQ(parent->stats().used_bytes, 60 * kKiB);  // still reserved
  reserved->end_reservation();
  EXPECT_EQ(parent->stats().used_bytes, 40 * kKiB);
  reserved->end_reservation();
  EXPECT_EQ(parent->stats().used_bytes, 40 * kKiB);
  a = pool.allocate(50 * kKiB, 0, {.account = reserved});
  EXPECT_EQ(parent->stats().used_bytes, 90 * kKiB);
  pool.free(a);
  EXPECT_EQ(kind_of([&] { pool.close_account(reserved); }), Error::Kind::kState);
  pool.free(b);
  EXPECT_EQ(parent->stats().used_bytes, 0u);
  EXPECT_EQ(parent->stats().peak_bytes, 90 * kKiB);
  pool.close_account(reserved);
  PoolAccount* unused = pool.open_reservation(*parent, 120 * kKiB);
  pool.close_account(unused);
  EXPECT_EQ(parent->stats().used_bytes, 0u);
  pool.close_account(parent);
}

// Charges come from several threads while reservations begin and end: the parent is exact.
TEST(PoolAccountTest, ReservationsAreExactWithThreads) {
  PoolAccount parent(1, 1000, PoolClass::kBurstable, "parent");
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; ++t)
    threads.emplace_back([&parent, t] {
      std::mt19937 random(t);
      for (unsigned i = 0; i < 300; ++i) {
        if (!parent.charge(300)) continue;
        PoolAccount reserved(2 + t, parent, 300);
        std::size_t used = 0;
        std::thread frees;
        for (int step = 0; step < 6; ++step)
          if (const std::size_t bytes = random() % 150; reserved.charge(bytes)) used += bytes;
        EXPECT_EQ(reserved.stats().used_bytes, used);
        frees = std::thread([&] { reserved.uncharge(used); });
        reserved.end_reservation();
        frees.join();
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(parent.stats().used_bytes, 0u);
  EXPECT_LE(parent.stats().peak_bytes, 1000u);
}

TEST_F(PoolArenaTest, AFailedAllocationIsNotCharged) {
  Pool pool(device, options(1));
  PoolAccount* account = pool.open_account(0);
  EXPECT_EQ(kind_of([&] { pool.allocate(9 * kChunk, 0, {.account = account}); }),
            Error::Kind::kMemory);
  EXPECT_EQ(account->stats().used_bytes, 0u);
}

TEST_F(PoolArenaTest, ReservationsKeepTheirRoom) {
  device.quota_bytes = 6 * kChunk;
  Pool pool(device, options(6));
  PoolArena* arena = pool.reserve(3 * kChunk - 5);
  EXPECT_EQ(pool.arena_stats(arena).reserved_bytes, 3 * kChunk);
  PoolBlock* common = pool.allocate(3 * kChunk, 0);
  EXPECT_EQ(kind_of([&] { pool.allocate(kLarge, 0); }), Error::Kind::kMemory);
  EXPECT_EQ(kind_of([&] { pool.reserve(1); }), Error::Kind::kMemory);
  PoolBlock* a = pool.allocate(2 * kChunk, 1, {.arena = arena});
  PoolBlock* b = pool.allocate(kChunk, 2, {.arena = arena});
  EXPECT_EQ(kind_of([&] { pool.allocate(kChunk, 1, {.arena = arena}); }), Error::Kind::kMemory);
  pool.free(a);
  pool.free(common);
  a = pool.allocate(3 * kChunk, 1, {.arena = arena});  // more than reserved: common memory
  pool.close(arena);
  EXPECT_EQ(kind_of([&] { pool.close(arena); }), Error::Kind::kValue);
  EXPECT_EQ(kind_of([&] { pool.allocate(1, 1, {.arena = arena}); }), Error::Kind::kValue);
  pool.free(a);
  pool.free(b);
  common = pool.allocate(6 * kChunk, 0);
  pool.free(common);
  EXPECT_EQ(kind_of([&] { pool.reserve(0); }), Error::Kind::kValue);
  EXPECT_EQ(kind_of([&] { pool.reserve(~std::size_t{0}); }), Error::Kind::kMemory);
}

TEST_F(PoolArenaTest, ReservationsReuseFreeMemoryWithoutTheDriver) {
  Pool pool(device, options(8));
  PoolBlock* block = pool.allocate(6 * kChunk, 1);
  pool.free(block);
  const std::size_t calls = pool.stats().num_driver_calls;
  for (int i = 0; i < 10; ++i) {
    PoolArena* arena = pool.reserve(4 * kChunk);
    block = pool.allocate(4 * kChunk, 1, {.arena = arena});
    PoolBlock* small = pool.allocate(100, 1);
    pool.free(block);
    pool.free(small);
    pool.close(arena);
  }
  EXPECT_EQ(pool.stats().num_driver_calls, calls);
}

TEST_F(PoolArenaTest, PrivateArenasKeepTheirAddresses) {
  device.quota_bytes = 8 * kChunk;
  Pool pool(device, options(8));
  PoolArena* arena = pool.open_private();
  PoolBlock* a = pool.allocate(2 * kChunk, 1, {.arena = arena});
  PoolBlock* s = pool.allocate(700, 1, {.arena = arena});
  const auto address = a->address;
  const auto small_address = s->address;
  pool.free(a);
  pool.free(s);
  PoolBlock* common = pool.allocate(2 * kChunk, 1);
  EXPECT_NE(common->address, address);
  EXPECT_EQ(kind_of([&] { pool.allocate(5 * kChunk, 1); }), Error::Kind::kMemory);
  pool.trim();
  EXPECT_TRUE(device.is_mapped(address));
  a = pool.allocate(2 * kChunk, 1, {.arena = arena});
  s = pool.allocate(700, 1, {.arena = arena});
  EXPECT_EQ(a->address, address);
  EXPECT_EQ(s->address, small_address);
  // The graph dies while a replay runs; an output lives on.
  pool.free(a);
  device.launch(9, [&] { device.fill(address, 2 * kChunk, 3); });
  device.launch(9, [&] { device.expect(address, 2 * kChunk, 3); });
  pool.close(arena, std::vector<Pool::Stream>{9});
  PoolBlock* more = pool.allocate(4 * kChunk, 1);
  device.launch(1, [&device = device, at = more->address] { device.fill(at, 4 * kChunk, 4); });
  device.run(1);
  device.run_all();
  pool.free(s);
  pool.free(more);
  pool.free(common);
  pool.trim();
  EXPECT_EQ(pool.stats().reserved_bytes, 0u);
}

TEST(PoolPlainTest, WorksWithoutVirtualMemory) {
  PoolFake device(4096, false);
  {
    device.quota_bytes = 8 * kChunk;
    Pool pool(device, options(8));
    PoolBlock* a = pool.allocate(kLarge, 0);
    PoolBlock* b = pool.allocate(kLarge, 0);
    EXPECT_EQ(device.num_creates, 1u);  // one segment
    PoolBlock* c = pool.allocate(4 * kChunk, 1, {.evictable = true});
    EXPECT_EQ(kind_of([&] { pool.evict(c); }), Error::Kind::kState);
    EXPECT_FALSE(pool.set_evictable(c, true));
    pool.acquire(c, 2);
    pool.release(c);
    EXPECT_TRUE(pool.prefetch(c));
    EXPECT_EQ(kind_of([&] { pool.allocate(5 * kChunk, 0); }), Error::Kind::kMemory);
    pool.free(a);
    pool.free(b);
    pool.free(c);
    PoolArena* arena = pool.reserve(4 * kChunk);  // a free segment
    EXPECT_EQ(device.num_creates, 2u);
    PoolBlock* d = pool.allocate(4 * kChunk, 5, {.arena = arena});
    pool.free(d);
    pool.close(arena);
    d = pool.allocate(7 * kChunk, 0);  // segments go back to make room
    pool.free(d);
    pool.trim();
    EXPECT_EQ(device.physical_bytes(), 0u);
  }
  EXPECT_TRUE(device.clean());
  EXPECT_TRUE(device.errors.empty());
}

TEST(PoolLifeTest, DestructionGivesEverythingBack) {
  PoolFake device;
  {
    Pool pool(device, options());
    PoolBlock* kept = pool.allocate(kChunk, 0);
    PoolBlock* evicted = pool.allocate(kChunk, 0, {.evictable = true});
    pool.evict(evicted);
    device.launch(0, [&device, at = kept->address] { device.fill(at, kChunk, 1); });
    PoolBlock* pending = pool.allocate(300, 0);
    device.launch(3, [] {});
    pool.free(pending, std::vector<Pool::Stream>{3});
    pool.reserve(3 * kChunk);
    pool.open_private();
    device.launch(7, [] {});
    pool.allocate(100, 7);
    pool.forget_stream(7);
  }
  EXPECT_TRUE(device.clean());
  EXPECT_TRUE(device.errors.empty()) << device.errors.front();
}

TEST(PoolLifeTest, ThreadsReturnTheirCaches) {
  PoolFake device;
  Pool pool(device, options());
  PoolBlock* kept = nullptr;
  std::thread([&] {
    kept = pool.allocate(256, 0);
    PoolBlock* block = pool.allocate(2048, 0);
    pool.free(block);
  }).join();
  EXPECT_EQ(pool.stats().used_bytes, 256u);
  pool.free(kept);  // by another thread than allocated it
  EXPECT_EQ(pool.stats().used_bytes, 0u);
  pool.trim();
  EXPECT_EQ(pool.stats().reserved_bytes, 0u);
}

TEST(PoolLifeTest, ACacheMayOutliveItsPool) {
  PoolFake device;
  for (int i = 0; i < 3; ++i) {
    Pool pool(device, options());  // perhaps at the same address each time
    PoolBlock* block = pool.allocate(256, 0);
    EXPECT_EQ(pool.stats().num_allocations, 1u);
    pool.free(block);
  }
  EXPECT_TRUE(device.clean());
}

}  // namespace
}  // namespace gpk::runtime
