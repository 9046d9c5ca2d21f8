#include <gtest/gtest.h>

#include "kernels/args/nn.h"
#include "ops/nn/rows.h"

namespace gpk::ops::nn {
namespace {

std::string plan(std::int64_t width, std::size_t itemsize, bool aligned = true) {
  return to_string(plan_rows(width, itemsize, aligned));
}

TEST(RowPlan, FourAccessesOfSixteenBytesPerThread) {
  EXPECT_EQ(plan(1024, 2), "rows(vec=8, accesses=4, group=32)");
  EXPECT_EQ(plan(4096, 2), "rows(vec=8, accesses=4, group=128)");
  EXPECT_EQ(plan(4096, 4), "rows(vec=4, accesses=4, group=256)");
  EXPECT_EQ(plan(5120, 2), "rows(vec=8, accesses=4, group=160)");
}

TEST(RowPlan, NarrowRowsShareABlock) {
  EXPECT_EQ(plan(1, 4, false), "rows(vec=1, accesses=4, group=1)");
  EXPECT_EQ(plan(64, 2), "rows(vec=8, accesses=4, group=2)");
  const LaunchConfig config = row_grid(1000, plan_rows(64, 2, true), 132);
  EXPECT_EQ(config.block[0], 128u);
  EXPECT_EQ(config.grid[0], 16u);  // 64 rows each
}

TEST(RowPlan, WideRowsAreHeldWhileTheyFit) {
  EXPECT_EQ(plan(32768, 2), "rows(vec=8, accesses=8, group=512)");
  EXPECT_EQ(plan(65536, 2), "rows(vec=8, accesses=0, group=512)");
  EXPECT_EQ(row_grid(7, plan_rows(65536, 2, true), 132).grid[0], 7u);
}

TEST(RowPlan, OddOrMisalignedRowsAreReadByElement) {
  EXPECT_EQ(plan(1001, 2), "rows(vec=1, accesses=4, group=256)");
  EXPECT_EQ(plan(1024, 2, false), "rows(vec=1, accesses=4, group=256)");
  EXPECT_EQ(plan(4099, 4), "rows(vec=1, accesses=0, group=512)");
}

TEST(RowPlan, EveryElementHasAThread) {
  for (std::int64_t width = 1; width < 40000; width += width < 300 ? 1 : 97)
    for (const std::size_t itemsize : {2, 4})
      for (const bool aligned : {false, true}) {
        const RowPlan plan = plan_rows(width, itemsize, aligned);
        EXPECT_LE(plan.group, kernels::kMaxRowGroup);
        EXPECT_TRUE(plan.group % 32 == 0 || 32 % plan.group == 0) << to_string(plan);
        if (plan.accesses > 0) {
          EXPECT_GE(std::int64_t{plan.group} * plan.accesses * plan.vec, width);
        }
        EXPECT_EQ(width % plan.vec, 0);
      }
}

TEST(Rows, StridesOfRows) {
  const Device cpu{DeviceKind::kCpu, 0};
  const Array whole = Array::empty({2, 3, 8}, DType::kFloat32, cpu);
  ASSERT_TRUE(try_rows(whole));
  EXPECT_EQ(try_rows(whole)->rows, 6);
  EXPECT_EQ(try_rows(whole)->stride, 8);
  const Array gaps({2, 3, 4}, {24, 8, 1}, DType::kFloat32, whole.buffer(), 2);
  ASSERT_TRUE(try_rows(gaps));
  EXPECT_EQ(try_rows(gaps)->stride, 8);
  EXPECT_EQ(try_rows(gaps)->width, 4);
  const Array steps({2, 3, 4}, {24, 8, 2}, DType::kFloat32, whole.buffer(), 0);
  EXPECT_FALSE(try_rows(steps));
  const Array swapped({3, 2, 8}, {8, 24, 1}, DType::kFloat32, whole.buffer(), 0);
  EXPECT_FALSE(try_rows(swapped));
}

}  // namespace
}  // namespace gpk::ops::nn
