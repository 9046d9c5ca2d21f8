// Every call of the device fails once, by exception or for want of memory.
#include <gtest/gtest.h>

#include "runtime_pool_world.h"

namespace gpk::runtime {
namespace {

using fake::PoolFake;
using fake::PoolSetup;
using fake::PoolWorld;

struct Faults {
  PoolSetup setup;
  std::size_t num_steps;
};

class PoolFaults : public ::testing::TestWithParam<Faults> {
 protected:
  // The number of calls that could fail.
  static std::size_t run(std::size_t fail_in, bool throws) {
    PoolWorld world(GetParam().setup);
    world.device.fail_in = fail_in;
    world.device.fail_throws = throws;
    for (std::size_t i = 0; i < GetParam().num_steps; ++i) {
      world.step();
      if (HasFatalFailure()) {
        ADD_FAILURE() << "call " << fail_in << ", step " << i;
        return 0;
      }
    }
    world.finish();
    EXPECT_FALSE(HasFailure()) << "call " << fail_in;
    return world.device.num_fallible;
  }
};

TEST_P(PoolFaults, EachCallOnce) {
  const std::size_t num_calls = run(0, false);
  ASSERT_GT(num_calls, 50u);
  for (const bool throws : {true, false})
    for (std::size_t i = 1; i <= num_calls && !HasFailure(); i += 1 + i / 60) run(i, throws);
}

INSTANTIATE_TEST_SUITE_P(
    Setups, PoolFaults,
    ::testing::Values(Faults{{.seed = 21}, 100}, Faults{{.seed = 22, .evict_by_default = true}, 80},
                      Faults{{.seed = 23, .maps = false}, 150},
                      Faults{{.seed = 24, .quota_chunks = 12, .evict_by_default = true}, 80}));

TEST(PoolFaultTest, ManyFailuresInARow) {
  PoolWorld world({.seed = 31, .evict_by_default = true});
  std::minstd_rand random(9);
  for (std::size_t i = 0; i < 3000; ++i) {
    if (random() % 3 == 0) {
      world.device.fail_in = 1 + random() % 6;
      world.device.fail_throws = random() % 2 == 0;
    }
    world.step();
    if (HasFatalFailure()) FAIL() << "at step " << i;
  }
  EXPECT_GT(world.num_failures, 100u);
  world.finish();
}

TEST(PoolFaultTest, AFreeWhoseEventFailsIsTriedAgain) {
  PoolFake device;
  PoolOptions options;
  options.chunk_bytes = PoolWorld::kChunk;
  Pool pool(device, options);
  PoolBlock* block = pool.allocate(2 << 20, 1);
  const auto address = block->address;
  device.launch(2, [&] { device.fill(address, 2 << 20, 1); });
  device.fail_in = 1;
  pool.free(block, std::vector<Pool::Stream>{2});
  EXPECT_EQ(device.num_records, 0u);
  EXPECT_EQ(pool.stats().pending_bytes, std::size_t{2} << 20);
  pool.trim();
  EXPECT_EQ(device.num_records, 1u + 1u);  // the event at last, and one for the hole
  EXPECT_EQ(device.physical_bytes(), 0u);
  EXPECT_TRUE(device.errors.empty()) << device.errors.front();
}

}  // namespace
}  // namespace gpk::runtime
