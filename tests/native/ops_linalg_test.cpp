// Plans of native/ops/linalg.
#include <gtest/gtest.h>

#include "core/device.h"
#include "ops/linalg/divide.h"
#include "ops/linalg/plan.h"
#include "ops/linalg/reflectors.h"

namespace gpk::ops::linalg {
namespace {

DeviceTraits traits_with(std::size_t shared_bytes) {
  DeviceTraits traits;
  traits.shared_per_block_optin_bytes = shared_bytes;
  return traits;
}

TEST(LinalgPlan, PanelsAreInSharedMemoryWhereTheyFit) {
  const DeviceTraits small = traits_with(std::size_t{99} << 10);
  EXPECT_EQ(to_string(plan_panel(32, 32, DType::kFloat32, small)), "panel(shared, threads=128)");
  EXPECT_EQ(to_string(plan_panel(64, 64, DType::kComplex128, small)), "panel(shared, threads=256)");
  EXPECT_EQ(to_string(plan_panel(8192, 32, DType::kFloat32, small)),
            "panel(in place, threads=512)");
  const PanelPlan plan = plan_panel(600, 32, DType::kFloat32, small);
  EXPECT_TRUE(plan.shared);
  EXPECT_EQ(plan.shared_bytes, std::size_t{600} * 33 * 4);
  EXPECT_FALSE(plan_panel(700, 32, DType::kFloat32, small).shared);
  EXPECT_TRUE(plan_panel(700, 32, DType::kFloat32, traits_with(std::size_t{227} << 10)).shared);
}

TEST(LinalgPlan, TallPanelsHaveSeveralBlocks) {
  DeviceTraits traits = traits_with(std::size_t{227} << 10);
  const auto plan = [&](std::int64_t rows, std::int64_t batch, DType dtype) {
    return to_string(plan_panel_grid({PanelKind::kLu, batch, rows, rows, dtype}, traits, 132));
  };
  EXPECT_EQ(plan(1024, 1, DType::kFloat32), "grid(blocks=0, cols=0, rows=0, matrices=0)");
  traits.cooperative_launch = true;
  EXPECT_EQ(plan(100, 1, DType::kFloat32), "grid(blocks=1, cols=100, rows=100, matrices=1)");
  EXPECT_EQ(plan(1024, 1, DType::kFloat32), "grid(blocks=16, cols=128, rows=64, matrices=1)");
  EXPECT_EQ(plan(1024, 1, DType::kComplex128), "grid(blocks=16, cols=64, rows=64, matrices=1)");
  EXPECT_EQ(plan(1024, 40, DType::kFloat32), "grid(blocks=3, cols=128, rows=342, matrices=40)");
  EXPECT_EQ(plan(8192, 1, DType::kFloat32), "grid(blocks=64, cols=128, rows=128, matrices=1)");
  EXPECT_EQ(plan(8192, 1, DType::kFloat64), "grid(blocks=64, cols=128, rows=128, matrices=1)");
  EXPECT_EQ(plan(1024, 132, DType::kFloat32), "grid(blocks=0, cols=0, rows=0, matrices=0)");
  for (const PanelKind kind : {PanelKind::kLu, PanelKind::kQr})
    for (const DType dtype : {DType::kFloat32, DType::kComplex128})
      for (std::int64_t rows = 65; rows < 40'000; rows += rows / 5)
        for (const std::int64_t batch : {1, 3, 100}) {
          const PanelGrid grid = plan_panel_grid({kind, batch, rows, rows, dtype}, traits, 132);
          ASSERT_GT(grid.blocks, 0);
          ASSERT_LE(grid.blocks, kernels::kPanelBlocks);
          ASSERT_GE(std::int64_t{grid.blocks} * grid.rows, rows);
          ASSERT_LT(std::int64_t{grid.blocks - 1} * grid.rows, rows);
          ASSERT_LE(grid.blocks * grid.matrices, 132);
          ASSERT_GE(grid.matrices, 1);
          ASSERT_LE(grid.shared_bytes, traits.shared_per_block_optin_bytes);
        }
}

TEST(LinalgPlan, ShorterPanelsAreClusters) {
  DeviceTraits traits = traits_with(std::size_t{227} << 10);
  traits.cooperative_launch = traits.cluster_launch = true;
  traits.sm = 90;
  traits.multiprocessor_count = 132;
  const auto plan = [&](std::int64_t rows, DType dtype, int num_sms = 132) {
    return to_string(plan_panel_grid({PanelKind::kLu, 1, rows, rows, dtype}, traits, num_sms));
  };
  EXPECT_EQ(plan(200, DType::kFloat32), "grid(blocks=1, cols=128, rows=200, matrices=1)");
  EXPECT_EQ(plan(1024, DType::kFloat32), "grid(blocks=8, cols=128, rows=128, matrices=1, cluster)");
  EXPECT_EQ(plan(4096, DType::kFloat32), "grid(blocks=8, cols=64, rows=512, matrices=1, cluster)");
  EXPECT_EQ(plan(4096, DType::kFloat64), "grid(blocks=64, cols=128, rows=64, matrices=1)");
  EXPECT_EQ(plan(1024, DType::kFloat32, 64), "grid(blocks=16, cols=128, rows=64, matrices=1)");
  traits.sm = 80;
  EXPECT_EQ(plan(1024, DType::kFloat32), "grid(blocks=16, cols=128, rows=64, matrices=1)");
}

TEST(LinalgPlan, ProductsOfDoublesAreTiles) {
  const auto takes = [](std::int64_t m, std::int64_t n, std::int64_t k, DType dtype) {
    return takes_product(1, m, n, k, dtype, 132);
  };
  EXPECT_TRUE(takes(1000, 1000, 128, DType::kFloat64));
  EXPECT_TRUE(takes(64, 64, 64, DType::kComplex128));
  EXPECT_FALSE(takes(1000, 1000, 128, DType::kFloat32));
  EXPECT_FALSE(takes(1000, 1, 128, DType::kFloat64));
  EXPECT_FALSE(takes(64, 64, 4096, DType::kFloat64));  // split-K
  EXPECT_TRUE(takes(128, 4096, 4096, DType::kFloat64));
  EXPECT_EQ(plan_product(DType::kFloat64).tiles(2, 65, 64), 4);
  EXPECT_LE(plan_product(DType::kComplex128).shared_bytes, std::size_t{99} << 10);
}

TEST(LinalgPlan, LeavesFitIntoSharedMemory) {
  for (const DType dtype :
       {DType::kFloat32, DType::kFloat64, DType::kComplex64, DType::kComplex128}) {
    const int order = eigh_leaf_order(dtype);
    EXPECT_EQ(order % 2, 0);
    EXPECT_LE(2 * matrix_bytes(order, order, dtype), std::size_t{96} << 10);
    EXPECT_LE(triangular_bytes(triangular_order(dtype), dtype), std::size_t{99} << 10);
  }
}

TEST(LinalgPlan, BlocksOfReflectorsAreResident) {
  DeviceTraits traits = traits_with(std::size_t{227} << 10);
  traits.cooperative_launch = true;
  const auto plan = [&](std::int64_t batch, std::int64_t n, DType dtype = DType::kFloat32) {
    return to_string(plan_reflectors(batch, n, dtype, traits, 132));
  };
  EXPECT_EQ(plan(1, 65), "reflectors(blocks=5, matrices=1, pitch=68, shared)");
  EXPECT_EQ(plan(1, 2048), "reflectors(blocks=128, matrices=1, pitch=2048, shared)");
  EXPECT_EQ(plan(1, 4096), "reflectors(blocks=132, matrices=1, pitch=4096, shared)");
  EXPECT_EQ(plan(4, 2048), "reflectors(blocks=33, matrices=4, pitch=2048, shared)");
  EXPECT_EQ(plan(1000, 100), "reflectors(blocks=1, matrices=1000, pitch=100, shared)");
  EXPECT_EQ(plan(1, 30000, DType::kComplex128),
            "reflectors(blocks=132, matrices=1, pitch=30000, global)");
  traits.cooperative_launch = false;
  EXPECT_EQ(plan(1, 2048), "reflectors(blocks=1, matrices=1, pitch=2048, shared)");
}

TEST(LinalgPlan, LeavesOfTridiagonalMatrices) {
  EXPECT_EQ(to_string(plan_divide(65)), "divide(leaf=17, leaves=4)");
  EXPECT_EQ(to_string(plan_divide(2048)), "divide(leaf=32, leaves=64)");
  for (std::int64_t n = 33; n < 3000; ++n) {
    const DividePlan plan = plan_divide(n);
    ASSERT_GE(plan.order(), n);
    ASSERT_LT(plan.order(), n + plan.leaves);
    ASSERT_LE(plan.leaf, eigh_leaf_order(DType::kFloat64));
    ASSERT_GT(plan.leaf, 16);
  }
}

}  // namespace
}  // namespace gpk::ops::linalg
