#include <gtest/gtest.h>

#include "ops/sampling/logit_rows.h"

namespace gpk::ops::sampling {
namespace {

DeviceTraits hopper() {
  DeviceTraits traits;
  traits.sm = 90;
  traits.multiprocessor_count = 132;
  traits.shared_per_block_optin_bytes = 232448;
  traits.cluster_launch = true;
  return traits;
}

DeviceTraits ampere() {
  DeviceTraits traits;
  traits.sm = 80;
  traits.multiprocessor_count = 108;
  traits.shared_per_block_optin_bytes = 166912;
  return traits;
}

std::string plan(std::int64_t rows, std::int64_t width, const DeviceTraits& traits,
                 bool aligned = true, bool compiles = true) {
  return to_string(plan_team({rows, width, 2, aligned, compiles}, traits));
}

TEST(TeamPlan, FewRowsHaveLargeClusters) {
  EXPECT_EQ(plan(1, 151936, hopper()), "team(vec=8, blocks=16, slice=9496, shared)");
  EXPECT_EQ(plan(8, 151936, hopper()), "team(vec=8, blocks=16, slice=9496, shared)");
  EXPECT_EQ(plan(32, 151936, hopper()), "team(vec=8, blocks=8, slice=18992, shared)");
}

TEST(TeamPlan, SmallVocabulariesHaveOneBlock) {
  EXPECT_EQ(plan(1, 8000, hopper()), "team(vec=8, blocks=1, slice=8000, shared)");
  EXPECT_EQ(plan(1, 32000, hopper()), "team(vec=8, blocks=4, slice=8000, shared)");
}

TEST(TeamPlan, OddRowsAreReadByElement) {
  EXPECT_EQ(plan(1, 50257, hopper()), "team(vec=1, blocks=8, slice=6288, shared)");
  EXPECT_EQ(plan(1, 151936, hopper(), false), "team(vec=1, blocks=16, slice=9496, shared)");
}

TEST(TeamPlan, WithoutClustersOneBlockHasTheRow) {
  EXPECT_EQ(plan(4, 151936, ampere()), "team(vec=8, blocks=1, slice=151936)");
  EXPECT_EQ(plan(4, 30000, ampere()), "team(vec=8, blocks=1, slice=30000, shared)");
  EXPECT_EQ(plan(4, 151936, hopper(), true, false), "team(vec=1, blocks=1, slice=151936)");
}

TEST(TeamPlan, EveryTokenHasABlock) {
  for (std::int64_t width = 1; width < 500000; width = width * 5 / 4 + 1)
    for (const std::int64_t rows : {1, 7, 40}) {
      const TeamPlan plan = plan_team({rows, width, 2, true, true}, hopper());
      EXPECT_GE(std::int64_t{plan.slice} * plan.blocks, width);
      EXPECT_EQ(plan.slice % 8, 0);
      EXPECT_EQ(plan.blocks & (plan.blocks - 1), 0);
      EXPECT_EQ(width % plan.vec, 0);
    }
}

}  // namespace
}  // namespace gpk::ops::sampling
