// Plans for few rows: pure values, no GPU.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "core/view.h"
#include "ops/matmul/engine_gemv.h"

namespace gpk::ops::gemm {
namespace {

Array ghost(const Dims& shape, DType dtype, std::int64_t offset = 0) {
  static const std::shared_ptr<Buffer> buffer =
      Buffer::wrap(Device{}, reinterpret_cast<void*>(std::uintptr_t{1} << 20), 1, nullptr);
  return {shape, contiguous_strides(shape), dtype, buffer, offset};
}

Array swapped(const Array& array) { return permute(array, {1, 0}, "test"); }

// A linear layer: x [m, k], w [n, k], used as its transpose.
GemmCall linear(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype = DType::kBFloat16) {
  return {.a = ghost({m, k}, dtype), .b = swapped(ghost({n, k}, dtype)), .c = ghost({m, n}, dtype)};
}

GemmCall plain(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype = DType::kBFloat16) {
  return {.a = ghost({m, k}, dtype), .b = ghost({k, n}, dtype), .c = ghost({m, n}, dtype)};
}

GemmMachine of_sm(int sm) {
  GemmMachine machine;
  machine.sm = sm;
  if (sm != 90) machine.shared_bytes = 101376;
  return machine;
}

std::vector<MatmulPlan> proposals(const GemmCall& call, const GemmMachine& machine = {}) {
  std::vector<MatmulPlan> plans;
  propose_gemv(make_desc(call), machine, plans);
  return plans;
}

// The cheapest.
MatmulPlan plan_of(const GemmCall& call, const GemmMachine& machine = {}) {
  std::vector<MatmulPlan> plans = proposals(call, machine);
  if (plans.empty()) return {};
  return *std::min_element(plans.begin(), plans.end(), [](const auto& x, const auto& y) {
    return x.predicted_us < y.predicted_us;
  });
}

bool is(const MatmulPlan& plan, GemvKernel kernel) {
  return plan.engine == MatmulEngine::gemv && plan.kernel == static_cast<std::uint8_t>(kernel);
}

TEST(GemvPlan, LinearLayersOnHopper) {
  EXPECT_TRUE(is(plan_of(linear(1, 14336, 4096)), GemvKernel::kRows));
  EXPECT_TRUE(is(plan_of(linear(1, 4096, 4096)), GemvKernel::kRows));
  EXPECT_TRUE(is(plan_of(linear(1, 512, 2048)), GemvKernel::kRows));
  // Split-K parts that are not whole steps.
  EXPECT_TRUE(is(plan_of(linear(1, 4096, 14336)), GemvKernel::kRing));
  EXPECT_EQ(plan_of(linear(1, 4096, 14336)).tile_n, 2);
  EXPECT_TRUE(is(plan_of(linear(1, 512, 14336)), GemvKernel::kRows));  // too few rows for a ring
  EXPECT_TRUE(is(plan_of(linear(2, 4096, 14336)), GemvKernel::kMmaRows));
  EXPECT_TRUE(is(plan_of(linear(5, 4096, 4096)), GemvKernel::kMmaRows));
  for (const MatmulPlan& plan : proposals(linear(8, 4096, 4096)))
    EXPECT_FALSE(is(plan, GemvKernel::kMmaRows));  // that is wgmma's
}

TEST(GemvPlan, LinearLayersElsewhere) {
  EXPECT_TRUE(is(plan_of(linear(1, 14336, 4096), of_sm(80)), GemvKernel::kRows));
  EXPECT_TRUE(is(plan_of(linear(2, 14336, 4096), of_sm(80)), GemvKernel::kMmaRows));
  EXPECT_TRUE(is(plan_of(linear(64, 14336, 4096), of_sm(89)), GemvKernel::kMmaRows));
  EXPECT_TRUE(proposals(linear(65, 14336, 4096), of_sm(89)).empty());
  EXPECT_TRUE(is(plan_of(linear(3, 4096, 4096, DType::kFloat32), of_sm(80)), GemvKernel::kRows));
}

TEST(GemvPlan, WeightsByColumns) {
  const MatmulPlan one = plan_of(plain(1, 4096, 4096));
  EXPECT_TRUE(is(one, GemvKernel::kColumns));
  EXPECT_EQ(one.cluster, 2);
  EXPECT_EQ(one.splits, 2);
  EXPECT_EQ(one.k_per_split, 2048);
  EXPECT_EQ(plan_of(plain(1, 9216, 2304)).splits, 1);  // two would be a little more than a wave
  EXPECT_TRUE(is(plan_of(plain(4, 4096, 4096)), GemvKernel::kMmaColumns));
  EXPECT_TRUE(is(plan_of(plain(4, 4095, 4096)), GemvKernel::kColumns));  // pitch of two bytes
}

TEST(GemvPlan, MatrixTimesVectorIsTurned) {
  const GemmCall p = {.a = ghost({4096, 2048}, DType::kFloat32),
                      .b = ghost({2048, 1}, DType::kFloat32),
                      .c = ghost({4096, 1}, DType::kFloat32)};
  const MatmulPlan plan = plan_of(p);
  EXPECT_TRUE(plan.transpose);
  EXPECT_TRUE(is(plan, GemvKernel::kRows));
  GemmCall m_major = p;
  m_major.a = swapped(ghost({2048, 4096}, DType::kFloat32));
  EXPECT_TRUE(plan_of(m_major).transpose);
  EXPECT_TRUE(is(plan_of(m_major), GemvKernel::kColumns));
}

TEST(GemvPlan, FewLongRowsArePartsOfK) {
  const MatmulPlan cluster = plan_of(linear(1, 64, 32768));
  EXPECT_TRUE(is(cluster, GemvKernel::kRows));
  EXPECT_GT(cluster.cluster, 1);
  EXPECT_EQ(cluster.cluster, cluster.splits);
  const MatmulPlan parts = plan_of(linear(1, 2, 1 << 20));
  EXPECT_EQ(parts.cluster, 1);
  EXPECT_GT(parts.splits, 8);
  const MatmulPlan older = plan_of(linear(1, 64, 32768), of_sm(80));
  EXPECT_EQ(older.cluster, 1);
  EXPECT_GT(older.splits, 1);
}

TEST(GemvPlan, UnalignedWeightsComeInPieces) {
  const MatmulDesc desc = make_desc(linear(1, 4096, 4097));
  const MatmulPlan plan = plan_of(linear(1, 4096, 4097));
  EXPECT_TRUE(is(plan, GemvKernel::kRows));
  EXPECT_EQ(gemv_variant(desc, plan).align, 2);
  EXPECT_FALSE(gemv_copies_input(desc, plan));
  GemmCall padded = linear(1, 4096, 4096);
  padded.b = swapped(ghost({4096, 4096}, DType::kBFloat16, 4));
  EXPECT_EQ(gemv_variant(make_desc(padded), plan_of(padded)).align, 4);
}

TEST(GemvPlan, InputsThatDoNotFitAreCopied) {
  GemmCall p = linear(2, 4096, 4096);
  EXPECT_FALSE(gemv_copies_input(make_desc(p), plan_of(p)));
  p.a = ghost({2, 4096}, DType::kBFloat16, 1);
  EXPECT_TRUE(gemv_copies_input(make_desc(p), plan_of(p)));
  p.a = swapped(ghost({4096, 2}, DType::kBFloat16));
  EXPECT_TRUE(gemv_copies_input(make_desc(p), plan_of(p)));
  const GemmCall stack = {.a = ghost({3, 1, 4097}, DType::kBFloat16),
                          .b = ghost({3, 4097, 4096}, DType::kBFloat16),
                          .c = ghost({3, 1, 4096}, DType::kBFloat16)};
  EXPECT_TRUE(proposals(stack).empty());  // columns want aligned rows of x
}

TEST(GemvPlan, WhatItLeavesToOthers) {
  GemmCall invariant = linear(1, 4096, 4096);
  invariant.batch_invariant = true;
  EXPECT_TRUE(proposals(invariant).empty());
  EXPECT_TRUE(proposals(linear(1, 4096, 4096, DType::kFloat64)).empty());
  EXPECT_TRUE(proposals(linear(1, 4096, 4096, DType::kInt8)).empty());
  EXPECT_TRUE(proposals(linear(128, 4096, 4096)).empty());
  EXPECT_TRUE(proposals(linear(1, 4096, 32)).empty());
  GemmCall wide = linear(1, 4096, 4096);
  wide.c = ghost({1, 4096}, DType::kFloat32);
  EXPECT_FALSE(proposals(wide).empty());
}

// A row has the same bits in a batch of 1 to 64: only the rows of a tile may depend on m.
TEST(GemvPlan, FewRowsAreCutByNAndKAlone) {
  for (const auto& [sm, gated] : {std::pair{80, false}, {90, false}, {90, true}})
    for (const auto& [n, k] : {std::pair{1024, 1024},
                               {6144, 4096},
                               {151936, 1024},
                               {64, 64},
                               {1000, 3072},
                               {4096, 12288},
                               {72, 200}}) {
      std::optional<MatmulPlan> first;
      for (const std::int64_t m : {1, 2, 7, 8, 9, 16, 17, 33, 64}) {
        GemmCall call = linear(m, n, k);
        call.batch_invariant = call.few_rows = true;
        call.gated = gated;
        if (gated && m > kMaxGatedRows) continue;
        const std::vector<MatmulPlan> plans = propose_matmul(make_desc(call), of_sm(sm));
        ASSERT_EQ(plans.size(), 1u);
        MatmulPlan plan = plans.front();
        EXPECT_TRUE(is(plan, GemvKernel::kMmaRows));
        EXPECT_GE(plan.tile_m, m);
        plan.tile_m = plan.tile_n = 0;  // other rows and columns, not other sums
        plan.predicted_us = 0.0f;
        if (!first) first = plan;
        EXPECT_EQ(plan, *first) << m << " " << n << " " << k;
      }
    }
}

TEST(GemvPlan, FewRowsThatDoNotFitAreBatchInvariant) {
  for (GemmCall call :
       {linear(1, 4096, 4096, DType::kFloat32), linear(3, 6, 4096), linear(2, 4096, 4097)}) {
    call.batch_invariant = true;
    const std::vector<MatmulPlan> all = propose_matmul(make_desc(call), {});
    call.few_rows = true;
    const std::vector<MatmulPlan> few = propose_matmul(make_desc(call), {});
    ASSERT_EQ(few.size(), all.size());
    EXPECT_EQ(few.front().engine, all.front().engine);
  }
}

// SwiGLU of many rows is a GEMM of 2 n columns and a pass: the sums of both are the same.
TEST(GemvPlan, GatesAreCutLikeTheirTwoHalves) {
  for (const auto& [n, k] : {std::pair{3072, 1024}, {12288, 4096}, {8192, 2048}, {96, 64}}) {
    GemmCall halves = linear(1, 2 * n, k);
    GemmCall gated = linear(1, n, k);
    gated.gated = true;
    for (GemmCall* call : {&halves, &gated}) call->batch_invariant = call->few_rows = true;
    const MatmulPlan a = propose_matmul(make_desc(halves), {}).front();
    const MatmulPlan b = propose_matmul(make_desc(gated), {}).front();
    EXPECT_EQ(a.group, b.group);
    EXPECT_EQ(a.splits, b.splits);
    EXPECT_EQ(a.k_per_split, b.k_per_split);
  }
}

TEST(GemvPlan, NormsInFrontAreForFewRows) {
  GemmCall call = linear(kMaxNormRows, 4096, 4096);
  call.batch_invariant = call.few_rows = true;
  call.norm = InputNorm{ghost({4096}, DType::kBFloat16)};
  EXPECT_TRUE(takes_few_rows(make_desc(call), {}));
  GemmCall more = linear(kMaxNormRows + 1, 4096, 4096);
  more.batch_invariant = more.few_rows = true;
  more.norm = call.norm;
  EXPECT_FALSE(takes_few_rows(make_desc(more), {}));
  EXPECT_THROW(propose_matmul(make_desc(more), {}), Error);
}

TEST(GemvPlan, EpiloguesAreFused) {
  GemmCall p = linear(1, 4096, 4096);
  p.epilogue.bias = ghost({4096}, DType::kBFloat16);
  p.epilogue.activation = Activation::kSilu;
  const std::vector<MatmulPlan> plans = proposals(p);
  ASSERT_FALSE(plans.empty());
  for (const MatmulPlan& plan : plans) EXPECT_TRUE(plan.fused);
}

// Every plan has a kernel in the enumeration, parts that cover K, and room in shared memory.
TEST(GemvPlan, EveryPlanIsEnumerated) {
  std::vector<GemvVariant> known = gemv_variants();
  EXPECT_LT(known.size(), 100u);
  int count = 0;
  for (const int sm : {80, 89, 90, 100, 120})
    for (const DType dtype : {DType::kBFloat16, DType::kFloat16, DType::kFloat32})
      for (const std::int64_t m : {1, 2, 3, 4, 7, 8, 16, 17, 33, 64})
        for (const std::int64_t n : {1, 65, 512, 2048, 4098, 28672})
          for (const std::int64_t k : {64, 65, 1000, 4096, 14338, 100000})
            for (const bool rows : {false, true}) {
              const GemmCall p = rows ? linear(m, n, k, dtype) : plain(m, n, k, dtype);
              const MatmulDesc desc = make_desc(p);
              for (const MatmulPlan& plan : proposals(p, of_sm(sm))) {
                GemvVariant v = gemv_variant(desc, plan);
                if (v.kernel != GemvKernel::kRing) v.group = 1;  // not part of the code
                EXPECT_NE(std::find(known.begin(), known.end(), v), known.end())
                    << to_string(plan) << " for " << to_string(desc);
                EXPECT_GE(plan.splits * plan.k_per_split, k);
                EXPECT_LT((plan.splits - 1) * plan.k_per_split, k);
                EXPECT_TRUE(plan.cluster == 1 || plan.cluster == plan.splits);
                if (v.kernel == GemvKernel::kRing) {
                  const int blocks = gemv_ring_blocks(v.tile_n, 132);
                  EXPECT_LE(gemv_ring_bytes(v, n, k, blocks), of_sm(sm).shared_bytes);
                }
                ++count;
              }
            }
  EXPECT_GT(count, 1000);
}

}  // namespace
}  // namespace gpk::ops::gemm
