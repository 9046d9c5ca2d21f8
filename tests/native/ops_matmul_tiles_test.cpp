// What the tile engines (mma, simt) propose: pure values, no GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/text.h"
#include "core/view.h"
#include "ops/matmul/engine_mma.h"
#include "ops/matmul/engine_simt.h"

namespace gpk::ops::gemm {
namespace {

Array ghost(const Dims& shape, DType dtype, std::int64_t offset = 0) {
  static const std::shared_ptr<Buffer> buffer =
      Buffer::wrap(Device{}, reinterpret_cast<void*>(std::uintptr_t{1} << 20), 1, nullptr);
  return {shape, contiguous_strides(shape), dtype, buffer, offset};
}

Array swapped(const Dims& shape, DType dtype) {
  return permute(ghost({shape[1], shape[0]}, dtype), {1, 0}, "test");
}

GemmCall product_of(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype, DType result,
                    bool a_k_major = true, bool b_k_major = false) {
  return {.a = a_k_major ? ghost({m, k}, dtype) : swapped({m, k}, dtype),
          .b = b_k_major ? swapped({k, n}, dtype) : ghost({k, n}, dtype),
          .c = ghost({m, n}, result)};
}

GemmCall product_of(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype) {
  return product_of(m, n, k, dtype, dtype == DType::kInt8 ? DType::kInt32 : dtype);
}

GemmMachine h200() { return {}; }
GemmMachine small_shared(int sm) {
  GemmMachine machine;
  machine.sm = sm;
  machine.shared_bytes = 101376;
  machine.sms = 84;
  return machine;
}

using Propose = void (*)(const MatmulDesc&, const GemmMachine&, std::vector<MatmulPlan>&);

std::vector<MatmulPlan> plans_of(Propose propose, const GemmCall& call,
                                 const GemmMachine& machine) {
  std::vector<MatmulPlan> plans;
  propose(make_desc(call), machine, plans);
  return plans;
}

MatmulPlan best_of(Propose propose, const GemmCall& call, const GemmMachine& machine = h200()) {
  const std::vector<MatmulPlan> plans = plans_of(propose, call, machine);
  EXPECT_FALSE(plans.empty());
  return *std::min_element(plans.begin(), plans.end(), [](const auto& x, const auto& y) {
    return x.predicted_us < y.predicted_us;
  });
}

MmaKernel mma_of(const MatmulPlan& plan) { return static_cast<MmaKernel>(plan.kernel); }

TEST(MatmulMma, TypesAndMachines) {
  const GemmCall halves = product_of(512, 512, 512, DType::kBFloat16);
  EXPECT_EQ(plans_of(propose_mma, halves, h200()).size(), 4u);
  EXPECT_EQ(plans_of(propose_mma, halves, small_shared(86)).size(), 3u);  // 128 x 256 does not fit
  GemmMachine old;
  old.sm = 75;
  EXPECT_TRUE(plans_of(propose_mma, halves, old).empty());
  EXPECT_TRUE(plans_of(propose_mma, product_of(512, 512, 512, DType::kFloat64), h200()).empty());
  EXPECT_TRUE(
      plans_of(propose_mma, product_of(512, 512, 512, DType::kInt8, DType::kInt8), h200()).empty());
}

TEST(MatmulMma, Float32OnlyWhereTf32IsAllowed) {
  GemmCall p = product_of(512, 512, 512, DType::kFloat32);
  EXPECT_TRUE(plans_of(propose_mma, p, h200()).empty());
  p.tf32 = true;
  EXPECT_FALSE(plans_of(propose_mma, p, h200()).empty());
}

TEST(MatmulMma, Fp8FromSm89On) {
  const GemmCall p = product_of(512, 512, 512, DType::kFloat8E4M3FN, DType::kBFloat16, true, true);
  EXPECT_TRUE(plans_of(propose_mma, p, small_shared(86)).empty());
  EXPECT_FALSE(plans_of(propose_mma, p, small_shared(89)).empty());
  GemmCall mixed = p;
  mixed.b = swapped({512, 512}, DType::kFloat8E5M2);
  EXPECT_FALSE(plans_of(propose_mma, mixed, h200()).empty());
  mixed.b = ghost({512, 512}, DType::kFloat8E5M2);  // along n: the general engine widens it
  EXPECT_TRUE(plans_of(propose_mma, mixed, h200()).empty());
}

TEST(MatmulMma, LargeTilesForLargeProductsSmallOnesForSmall) {
  for (const DType dtype : {DType::kBFloat16, DType::kInt8}) {
    EXPECT_EQ(mma_of(best_of(propose_mma, product_of(4096, 4096, 4096, dtype))),
              MmaKernel::k128x256);
    const MatmulPlan small = best_of(propose_mma, product_of(256, 256, 256, dtype));
    EXPECT_EQ(mma_of(small), MmaKernel::k64x64);
    EXPECT_EQ(small.splits, 1);
    EXPECT_LT(small.predicted_us, 8.0f);
  }
  // Measured on an H200: 82, 134, 194 and 152 TFLOP/s by 128x256, 128x128, 64x128, 64x64.
  EXPECT_EQ(mma_of(best_of(propose_mma, product_of(1024, 1024, 1024, DType::kBFloat16))),
            MmaKernel::k64x128);
}

TEST(MatmulMma, PredictionsAreNearWhatWasMeasured) {
  const auto us = [](std::int64_t size, DType dtype, MmaKernel kernel) {
    for (const MatmulPlan& plan :
         plans_of(propose_mma, product_of(size, size, size, dtype), h200()))
      if (mma_of(plan) == kernel) return static_cast<double>(plan.predicted_us);
    return 0.0;
  };
  EXPECT_NEAR(us(4096, DType::kBFloat16, MmaKernel::k128x256), 339.0, 50.0);
  EXPECT_NEAR(us(1024, DType::kBFloat16, MmaKernel::k64x128), 11.1, 2.0);
  EXPECT_NEAR(us(4096, DType::kInt8, MmaKernel::k128x256), 170.0, 25.0);
}

// As in docs/benchmarks/h200-sweep-*.json: K is short, and C takes longer than the main loop.
TEST(MatmulMma, StoringCountsWhereKIsShort) {
  for (const MatmulPlan& plan :
       plans_of(propose_mma, product_of(2331, 14848, 176, DType::kBFloat16), h200())) {
    EXPECT_GT(plan.predicted_us, 100.0f) << to_string(plan);
    EXPECT_LT(plan.predicted_us, 180.0f) << to_string(plan);
  }
}

TEST(MatmulMma, LooseKernelForWhatIsNotAligned) {
  GemmCall p = product_of(512, 512, 511, DType::kBFloat16);
  const std::vector<MatmulPlan> plans = plans_of(propose_mma, p, h200());
  ASSERT_EQ(plans.size(), 1u);
  EXPECT_EQ(mma_of(plans[0]), MmaKernel::kLoose);
  EXPECT_NE(spec_mma(make_desc(p), plans[0]).expression.find(", 2, 2>"), std::string::npos);
  p.a = ghost({512, 510}, DType::kBFloat16);
  p.b = ghost({510, 512}, DType::kBFloat16);
  EXPECT_NE(spec_mma(make_desc(p), plans_of(propose_mma, p, h200())[0]).expression.find(", 4, 4>"),
            std::string::npos);
}

TEST(MatmulMma, SplitsKWhereTilesAreFewAndNeverWhereRowsMustNotDepend) {
  GemmCall p = product_of(256, 256, 65536, DType::kFloat16);
  const MatmulPlan plan = best_of(propose_mma, p);
  EXPECT_GT(plan.splits, 1);
  EXPECT_EQ(plan.k_per_split % plan.tile_k, 0);
  EXPECT_GE(plan.splits * plan.k_per_split, 65536);
  EXPECT_LT((plan.splits - 1) * plan.k_per_split, 65536);
  p.batch_invariant = true;
  for (const MatmulPlan& each : plans_of(propose_mma, p, h200())) EXPECT_EQ(each.splits, 1);
}

TEST(MatmulMma, ColumnsOfCAreRowsOfTheTranspose) {
  GemmCall p = product_of(512, 256, 128, DType::kBFloat16);
  EXPECT_FALSE(best_of(propose_mma, p).transpose);
  p.c = swapped({512, 256}, DType::kBFloat16);
  const MatmulPlan plan = best_of(propose_mma, p);
  EXPECT_TRUE(plan.transpose);
  // B^T, which is first now, is M-major, A^T K-major.
  const std::string layouts = cat(", ", plan.stages, ", ", false, ", ", true, ", 16, 16>");
  EXPECT_NE(spec_mma(make_desc(p), plan).expression.find(layouts), std::string::npos);
}

TEST(MatmulTiles, SumsGoStraightToContiguousFloat32) {
  GemmCall p = product_of(512, 512, 512, DType::kBFloat16, DType::kFloat32);
  EXPECT_TRUE(takes_sums(make_desc(p)));
  EXPECT_FALSE(tiles_need_finish(make_desc(p), DType::kBFloat16, 1));
  EXPECT_TRUE(tiles_need_finish(make_desc(p), DType::kBFloat16, 2));
  p.epilogue.alpha = 2.0f;
  EXPECT_TRUE(tiles_need_finish(make_desc(p), DType::kBFloat16, 1));
  p.epilogue = {};
  p.c = Array({512, 512}, {600, 1}, DType::kFloat32, p.c.buffer(), 0);
  EXPECT_TRUE(tiles_need_finish(make_desc(p), DType::kBFloat16, 1));
  GemmCall whole = product_of(512, 512, 512, DType::kInt8);
  EXPECT_FALSE(tiles_need_finish(make_desc(whole), DType::kInt32, 1));
  whole.epilogue.alpha = 2.0f;  // integers have no epilogue in the kernel
  EXPECT_TRUE(tiles_need_finish(make_desc(whole), DType::kInt32, 1));
}

TEST(MatmulTiles, StridesOfOneSideMustBeOne) {
  GemmCall p = product_of(64, 64, 64, DType::kFloat32);
  EXPECT_FALSE(plans_of(propose_simt, p, h200()).empty());
  p.a = Array({64, 64}, {200, 3}, DType::kFloat32, p.a.buffer(), 0);
  EXPECT_TRUE(plans_of(propose_simt, p, h200()).empty());
}

TEST(MatmulSimt, OnlyFloat32) {
  EXPECT_TRUE(plans_of(propose_simt, product_of(64, 64, 64, DType::kFloat64), h200()).empty());
  EXPECT_TRUE(plans_of(propose_simt, product_of(64, 64, 64, DType::kBFloat16), h200()).empty());
  const MatmulPlan plan = best_of(propose_simt, product_of(4096, 4096, 4096, DType::kFloat32));
  EXPECT_NEAR(plan.predicted_us, 2740.0, 250.0);
  EXPECT_EQ(plan.splits, 1);
}

TEST(MatmulSimt, SmallProductsAreSplit) {
  const GemmCall p = product_of(512, 512, 512, DType::kFloat32);
  EXPECT_EQ(best_of(propose_simt, p).tile_m, 64);
  // Measured for 64 x 64: 17.5 TFLOP/s in four parts against 9.2 in one.
  for (const MatmulPlan& plan : plans_of(propose_simt, p, h200())) {
    if (plan.tile_n == 64) {
      EXPECT_GT(plan.splits, 1);
    }
  }
}

// Every kernel that some plan takes is among those that CI compiles, and those are not too many.
TEST(MatmulTiles, EnumerateListsWhatPlansChoose) {
  std::vector<jit::KernelSpec> specs;
  enumerate_mma(specs);
  enumerate_simt(specs);
  EXPECT_LT(specs.size(), 130u);
  std::set<std::string> listed, chosen;
  for (const jit::KernelSpec& spec : specs) {
    EXPECT_TRUE(listed.insert(spec.expression).second) << spec.expression;
    EXPECT_FALSE(spec.bundled);
  }
  const auto choose = [&](GemmCall p) {
    for (const bool split : {true, false}) {
      p.tf32x3 = split && p.a.dtype() == DType::kFloat32;
      p.tf32 = !p.tf32x3;
      for (const MatmulPlan& plan : plans_of(propose_mma, p, h200()))
        chosen.insert(spec_mma(make_desc(p), plan).expression);
    }
    const MatmulDesc desc = make_desc(p);
    for (const MatmulPlan& plan : plans_of(propose_simt, p, h200()))
      chosen.insert(spec_simt(desc, plan).expression);
  };
  constexpr DType kTypes[][3] = {
      {DType::kBFloat16, DType::kBFloat16, DType::kBFloat16},
      {DType::kFloat16, DType::kFloat16, DType::kFloat32},
      {DType::kFloat32, DType::kFloat32, DType::kFloat32},
      {DType::kInt8, DType::kInt8, DType::kInt32},
      {DType::kFloat8E4M3FN, DType::kFloat8E4M3FN, DType::kBFloat16},
      {DType::kFloat8E4M3FN, DType::kFloat8E5M2, DType::kFloat32},
      {DType::kFloat8E5M2, DType::kFloat8E4M3FN, DType::kFloat16},
      {DType::kFloat8E5M2, DType::kFloat8E5M2, DType::kBFloat16},
  };
  for (const auto& types : kTypes)
    for (const std::int64_t size : {256, 250, 249, 252})
      for (const bool a_k : {true, false})
        for (const bool b_k : {true, false})
          for (const bool c_m_major : {true, false}) {
            const Dims shape{size, size};
            choose({.a = a_k ? ghost(shape, types[0]) : swapped(shape, types[0]),
                    .b = b_k ? swapped(shape, types[1]) : ghost(shape, types[1]),
                    .c = c_m_major ? swapped(shape, types[2]) : ghost(shape, types[2])});
          }
  for (const std::string& expression : chosen)
    EXPECT_TRUE(listed.contains(expression)) << expression;
  EXPECT_EQ(chosen.size(), listed.size());
}

}  // namespace
}  // namespace gpk::ops::gemm
