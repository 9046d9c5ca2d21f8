// Which kernel computes groups of rows.
#include <gtest/gtest.h>

#include "ops/matmul/grouped_plan.h"

namespace gpk::ops::gemm {
namespace {

MatmulDesc grouped(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t groups,
                   DType dtype = DType::kBFloat16) {
  MatmulDesc desc;
  desc.a.dtype = desc.b.dtype = desc.dtype_c = dtype;
  desc.dtype_acc = accumulator(dtype);
  desc.groups = {GroupKind::kSizes, true, groups, n * k};
  MatmulProblem& p = desc.problem;
  p.m = m;
  p.n = n;
  p.k = k;
  p.a_m = p.b_n = k;
  p.a_k = p.b_k = p.c_n = 1;
  p.c_m = n;
  return desc;
}

GemmMachine machine_of_sm(int sm) {
  GemmMachine machine;
  machine.sm = sm;
  return machine;
}

GroupedKernel kernel_of(const MatmulPlan& plan) { return static_cast<GroupedKernel>(plan.kernel); }

GroupedKernel chosen(const MatmulDesc& desc, int sm = 90) {
  return kernel_of(plan_matmul(desc, machine_of_sm(sm)));
}

TEST(GroupedPlan, TensorCoresWhereTheyCan) {
  EXPECT_EQ(chosen(grouped(4096, 4096, 4096, 8)), GroupedKernel::kWgmma);
  EXPECT_EQ(chosen(grouped(4096, 4096, 4096, 8), 80), GroupedKernel::kMma);
  EXPECT_EQ(chosen(grouped(4096, 4096, 4096, 8), 120), GroupedKernel::kMma);
  EXPECT_EQ(chosen(grouped(8, 4096, 4096, 8)), GroupedKernel::kWgmma);  // one row each
  EXPECT_EQ(chosen(grouped(4096, 4096, 4096, 8, DType::kFloat32)), GroupedKernel::kSimt);
  MatmulDesc tf32 = grouped(4096, 4096, 4096, 8, DType::kFloat32);
  tf32.tf32 = true;
  EXPECT_EQ(chosen(tf32), GroupedKernel::kWgmma);
}

TEST(GroupedPlan, WhatTmaCannotReadGoesElsewhere) {
  MatmulDesc desc = grouped(512, 512, 512, 4);
  desc.align_c = 2;
  EXPECT_EQ(chosen(desc), GroupedKernel::kMma);  // stores of any alignment
  desc = grouped(512, 512, 512, 4);
  desc.align_a = 8;
  EXPECT_EQ(chosen(desc), GroupedKernel::kSimt);
  desc = grouped(512, 512, 512, 4);
  std::swap(desc.problem.b_n, desc.problem.b_k);
  EXPECT_EQ(chosen(desc), GroupedKernel::kWgmma);  // [experts, k, n]
  desc = grouped(512, 512, 512, 4);
  desc.groups.b_stride = 0;  // a broadcast matrix
  EXPECT_EQ(chosen(desc), GroupedKernel::kMma);
  desc = grouped(512, 512, 0, 4);
  EXPECT_EQ(chosen(desc), GroupedKernel::kSimt);
}

// Rows in any order are sorted first: what matters is their contiguous copy.
TEST(GroupedPlan, ExpertIds) {
  MatmulDesc desc = grouped(8192, 4096, 4096, 8);
  desc.groups.kind = GroupKind::kExpertIds;
  desc.align_a = desc.align_c = 2;
  EXPECT_EQ(chosen(desc), GroupedKernel::kWgmma);
  desc.groups.count = 2000;  // more than can be sorted
  EXPECT_EQ(chosen(desc), GroupedKernel::kSimt);
}

TEST(GroupedPlan, TilesFollowTheSizeOfGroups) {
  const auto tile_m = [](std::int64_t m, std::int64_t groups) {
    return plan_matmul(grouped(m, 4096, 4096, groups), machine_of_sm(90)).tile_m;
  };
  EXPECT_EQ(tile_m(32, 32), 64);
  EXPECT_EQ(tile_m(64 * 40, 64), 64);
  EXPECT_GE(tile_m(8 * 2048, 8), 128);
}

TEST(GroupedPlan, SharedMemoryHoldsTheTable) {
  const GemmMachine machine = machine_of_sm(90);
  for (const std::int64_t groups : {1, 8, 64, 256, 1000}) {
    std::vector<MatmulPlan> plans;
    all_grouped_plans(grouped(8192, 2048, 2048, groups), machine, plans);
    EXPECT_GE(plans.size(), 8u);
    for (const MatmulPlan& plan : plans) {
      if (kernel_of(plan) == GroupedKernel::kSimt) continue;
      const std::size_t bytes = grouped_shared_bytes(plan, DType::kBFloat16, groups);
      EXPECT_LE(bytes, machine.shared_bytes) << to_string(plan);
      EXPECT_GE(bytes, static_cast<std::size_t>(groups + 1) * 8);
      EXPECT_GE(plan.stages, 3);
    }
  }
}

// A product whose tiles cannot be counted in 32 bits has only the kernel that counts in 64.
TEST(GroupedPlan, ManyTiles) {
  const MatmulDesc desc = grouped(std::int64_t{1} << 30, std::int64_t{1} << 30, 64, 8);
  std::vector<MatmulPlan> plans;
  all_grouped_plans(desc, machine_of_sm(90), plans);
  ASSERT_EQ(plans.size(), 1u);
  EXPECT_EQ(kernel_of(plans[0]), GroupedKernel::kSimt);
}

}  // namespace
}  // namespace gpk::ops::gemm
