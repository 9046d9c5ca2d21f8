// Plans of native/ops/linalg.
#include <gtest/gtest.h>

#include <set>

#include "core/device.h"
#include "ops/linalg/plan.h"

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

TEST(LinalgPlan, LeavesFitIntoSharedMemory) {
  for (const DType dtype :
       {DType::kFloat32, DType::kFloat64, DType::kComplex64, DType::kComplex128}) {
    const int order = eigh_leaf_order(dtype);
    EXPECT_EQ(order % 2, 0);
    EXPECT_LE(2 * matrix_bytes(order, order, dtype), std::size_t{96} << 10);
    const std::size_t sides =
        std::size_t{kernels::kLinalgLeaf} * kernels::kTriangularCols * itemsize(dtype);
    EXPECT_LE(matrix_bytes(kernels::kLinalgLeaf, kernels::kLinalgLeaf, dtype) + sides,
              std::size_t{99} << 10);
  }
}

TEST(LinalgPlan, JacobiPairsCoverTheMatrix) {
  EXPECT_EQ(to_string(plan_jacobi(64, DType::kFloat32)), "jacobi(pairs=1, order=64)");
  EXPECT_EQ(to_string(plan_jacobi(5, DType::kFloat32)), "jacobi(pairs=1, order=5)");
  EXPECT_EQ(to_string(plan_jacobi(65, DType::kFloat32)), "jacobi(pairs=2, order=34)");
  EXPECT_EQ(to_string(plan_jacobi(2048, DType::kFloat64)), "jacobi(pairs=32, order=64)");
  for (const DType dtype : {DType::kFloat32, DType::kComplex128})
    for (std::int64_t n = 1; n < 700; ++n) {
      const JacobiPlan plan = plan_jacobi(n, dtype);
      ASSERT_GE(plan.order(), n);
      ASSERT_LT(plan.order(), n + 2 * plan.pairs);
      ASSERT_LE(plan.pair_order, eigh_leaf_order(dtype));
      ASSERT_TRUE(plan.pairs == 1 || plan.pair_order % 2 == 0);
    }
}

TEST(LinalgPlan, EveryTwoBlocksAreAPairOnce) {
  for (const std::int64_t pairs : {1, 2, 3, 8, 32}) {
    const std::int64_t blocks = 2 * pairs;
    const auto rounds = tournament_rounds(pairs);
    EXPECT_EQ(rounds.size(), static_cast<std::size_t>(blocks - 1));
    std::set<std::pair<std::int64_t, std::int64_t>> met;
    for (const std::vector<std::int64_t>& places : rounds) {
      EXPECT_EQ(std::set(places.begin(), places.end()).size(), static_cast<std::size_t>(blocks));
      for (std::size_t i = 0; i < places.size(); i += 2) {
        EXPECT_LT(places[i], places[i + 1]);
        met.emplace(places[i], places[i + 1]);
      }
    }
    EXPECT_EQ(met.size(), static_cast<std::size_t>(blocks * (blocks - 1) / 2));
  }
}

}  // namespace
}  // namespace gpk::ops::linalg
