#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "runtime_pool_world.h"

namespace gpk::runtime {
namespace {

using fake::PoolFake;
using fake::PoolSetup;
using fake::PoolWorld;
using Stream = Pool::Stream;

constexpr std::size_t kChunk = std::size_t{64} << 10;

std::size_t num_steps(std::size_t usual) {
  const char* text = std::getenv("GPK_TEST_LONG");
  return text != nullptr && *text == '1' ? usual * 500 : usual;
}

class PoolProperty : public ::testing::TestWithParam<PoolSetup> {};

TEST_P(PoolProperty, RandomOperations) {
  PoolWorld world(GetParam());
  const std::size_t steps = num_steps(4000);
  for (std::size_t i = 0; i < steps; ++i) {
    world.step();
    if (::testing::Test::HasFatalFailure()) FAIL() << "at step " << i;
  }
  world.finish();
  EXPECT_GT(world.num_allocated, steps / 10);
  EXPECT_GT(world.num_refused, 0u);
}

INSTANTIATE_TEST_SUITE_P(Setups, PoolProperty,
                         ::testing::Values(PoolSetup{.seed = 1}, PoolSetup{.seed = 2},
                                           PoolSetup{.seed = 3, .evict_by_default = true},
                                           PoolSetup{.seed = 4, .evict_by_default = true},
                                           PoolSetup{.seed = 5, .maps = false},
                                           PoolSetup{.seed = 6, .small_max_bytes = 0},
                                           PoolSetup{.seed = 7, .quota_chunks = 60}));

// Whatever else happens, a reservation serves requests until its chunks are used up.
TEST(PoolReservationProperty, AdmittedRoomIsAlwaysThere) {
  struct Held {
    PoolBlock* block;
    std::size_t num_chunks;
  };
  struct Reservation {
    PoolArena* arena;
    std::size_t num_chunks;
    std::size_t used_chunks;
    std::vector<Held> held;
  };
  PoolFake device;
  device.has_bytes = false;
  device.quota_bytes = 40 * kChunk;
  PoolOptions options;
  options.chunk_bytes = kChunk;
  options.region_bytes = 128 * kChunk;
  options.quota_bytes = 40 * kChunk;
  options.small_max_bytes = std::size_t{8} << 10;
  Pool pool(device, options);
  std::minstd_rand random(11);
  const auto pick = [&](std::size_t n) { return random() % n; };
  std::vector<Reservation> reservations;
  std::vector<PoolBlock*> common;
  std::size_t num_promised = 0;
  const std::size_t steps = num_steps(20000);
  for (std::size_t i = 0; i < steps; ++i) {
    const Stream stream = 1 + pick(3);
    const std::size_t roll = pick(100);
    if (roll < 4 && reservations.size() < 4) {
      const std::size_t num = 1 + pick(12);
      try {
        reservations.push_back({pool.reserve(num * kChunk - pick(kChunk)), num, 0, {}});
      } catch (const OutOfMemory&) {
      }
    } else if (roll < 6 && !reservations.empty()) {
      const std::size_t which = pick(reservations.size());
      for (const Held& held : reservations[which].held) common.push_back(held.block);
      pool.close(reservations[which].arena);
      reservations.erase(reservations.begin() + static_cast<std::ptrdiff_t>(which));
    } else if (roll < 40 && !reservations.empty()) {
      Reservation& mine = reservations[pick(reservations.size())];
      const bool small = pick(3) == 0;
      const std::size_t bytes = small ? 1 + pick(8 << 10) : 1 + pick(5 * kChunk);
      // A span of small blocks may lie across two chunks.
      const std::size_t num = bytes <= (8 << 10) ? 2 : (bytes + kChunk - 1) / kChunk;
      if (mine.used_chunks + num > mine.num_chunks) continue;
      ASSERT_NO_THROW(mine.held.push_back(
          {pool.allocate(bytes, stream, {.arena = mine.arena, .evictable = false}), num}))
          << "step " << i << " of " << num << " chunks";
      mine.used_chunks += num;
      ++num_promised;
    } else if (roll < 60 && !reservations.empty()) {
      Reservation& mine = reservations[pick(reservations.size())];
      if (mine.held.empty()) continue;
      const std::size_t which = pick(mine.held.size());
      device.launch(3, [] {});
      pool.free(mine.held[which].block,
                pick(2) == 0 ? std::vector<Stream>{3} : std::vector<Stream>{});
      mine.used_chunks -= mine.held[which].num_chunks;
      mine.held.erase(mine.held.begin() + static_cast<std::ptrdiff_t>(which));
    } else if (roll < 72) {
      try {
        common.push_back(pool.allocate(1 + pick(8 * kChunk), stream));
      } catch (const OutOfMemory&) {
      }
    } else if (roll < 95 && !common.empty()) {
      const std::size_t which = pick(common.size());
      pool.free(common[which]);
      common.erase(common.begin() + static_cast<std::ptrdiff_t>(which));
    } else {
      device.step(1 + pick(3));
    }
    ASSERT_TRUE(device.errors.empty()) << device.errors.front();
  }
  EXPECT_GT(num_promised, steps / 40);
  for (Reservation& each : reservations) {
    for (const Held& held : each.held) pool.free(held.block);
    pool.close(each.arena);
  }
  for (PoolBlock* block : common) pool.free(block);
  device.run_all();
  pool.trim();
  EXPECT_EQ(device.physical_bytes(), 0u);
}

}  // namespace
}  // namespace gpk::runtime
