#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <thread>
#include <vector>

#include "runtime/transfer/staging_copier.h"
#include "runtime/transfer/staging_ring.h"
#include "runtime_transfer_fake.h"

namespace gpk::runtime {
namespace {

using namespace transfer_test;

TEST(RuntimeTransferCopier, ManyCallersAndSizes) {
  HostCopier copier(4);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; ++t)
    threads.emplace_back([&copier, t] {
      for (const std::size_t size : {0ul, 1ul, 4097ul, 262144ul, 300001ul, 1048576ul, 1500001ul}) {
        const Bytes src = random_bytes(size, t);
        Bytes dst(size);
        copier.copy(dst.data(), src.data(), size);
        EXPECT_EQ(dst, src);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(HostCopier::default_num_threads(), 1u);
}

// Blocks never overlap, are released in order, and the ring always serves again.
TEST(RuntimeTransferStaging, RingAgainstModel) {
  ManualClock clock;
  FakeCopyDevice device(clock);
  std::mt19937 random(7);
  StagingRing ring(device, 10'000);
  EXPECT_EQ(ring.capacity_bytes(), 9984u);
  EXPECT_EQ(ring.allocated_bytes(), 0u);
  EXPECT_FALSE(ring.fits(0));
  EXPECT_FALSE(ring.fits(9985));
  std::deque<std::pair<std::uint64_t, std::size_t>> pieces;
  for (int step = 0; step < 4000; ++step) {
    const std::size_t bytes = 1 + random() % 4000;
    if (ring.fits(bytes) && random() % 3 != 0) {
      const std::uint64_t start = address(ring.acquire(bytes));
      for (const auto& [other, size] : pieces)
        ASSERT_TRUE(start + bytes <= other || other + size <= start);
      EXPECT_EQ(start % 256, 0u);
      pieces.emplace_back(start, bytes);
    } else if (!pieces.empty()) {
      ring.release_oldest();
      pieces.pop_front();
    } else {
      ASSERT_TRUE(ring.fits(bytes));
    }
    ASSERT_EQ(ring.num_pieces(), pieces.size());
  }
  EXPECT_EQ(kind_of([&] {
              while (true) (void)ring.acquire(3000);
            }),
            Error::Kind::kState);
}

}  // namespace
}  // namespace gpk::runtime
