#include "runtime/sharing/slicing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/error.h"
#include "expect.h"

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

}  // namespace
}  // namespace gpk::runtime
