// Descs and plans of GEMMs: pure values, no GPU.
#include <gtest/gtest.h>

#include "core/view.h"
#include "ops/matmul/engine_general.h"
#include "ops/matmul/general_plan.h"
#include "ops/matmul/plan.h"

namespace gpk::ops::gemm {
namespace {

// An array of that shape without its memory, at an address of any alignment.
Array ghost(const Dims& shape, DType dtype = DType::kFloat32, std::int64_t offset = 0) {
  static const std::shared_ptr<Buffer> buffer =
      Buffer::wrap(Device{}, reinterpret_cast<void*>(std::uintptr_t{1} << 20), 1, nullptr);
  return {shape, contiguous_strides(shape), dtype, buffer, offset};
}

Array transposed_ghost(const Dims& shape, DType dtype = DType::kFloat32) {
  return permute(ghost({shape[1], shape[0]}, dtype), {1, 0}, "test");
}

GemmCall product_of(const Dims& a, const Dims& b, DType dtype = DType::kFloat32) {
  Dims shape = a;
  shape[shape.size() - 1] = b[b.size() - 1];
  return {.a = ghost(a, dtype), .b = ghost(b, dtype), .c = ghost(shape, dtype)};
}

GemmMachine h200() { return {}; }

MatmulPlan general(const Dims& a, const Dims& b, DType dtype = DType::kFloat32) {
  return plan_general(make_desc(product_of(a, b, dtype)), h200());
}

GeneralKernel kernel_of(const MatmulPlan& plan) { return static_cast<GeneralKernel>(plan.kernel); }

TEST(MatmulDesc, AlignmentIsWhatDividesAddressPitchAndBatches) {
  GemmCall p = product_of({64, 72}, {72, 64}, DType::kBFloat16);
  EXPECT_EQ(make_desc(p).align_a, 16);
  p.a = ghost({64, 72}, DType::kBFloat16, 4);
  EXPECT_EQ(make_desc(p).align_a, 8);
  EXPECT_EQ(make_desc(product_of({64, 71}, {71, 64}, DType::kBFloat16)).align_a, 2);
  EXPECT_EQ(make_desc(product_of({64, 71}, {71, 64}, DType::kBFloat16)).align_b, 16);
  const MatmulDesc batched = make_desc(product_of({3, 1, 6}, {3, 6, 4}, DType::kBFloat16));
  EXPECT_EQ(batched.align_a, 4);  // 12 bytes from batch to batch
  EXPECT_EQ(batched.align_b, 8);  // the pitch
}

TEST(MatmulDesc, Layouts) {
  GemmCall p = product_of({64, 32}, {32, 48});
  EXPECT_TRUE(make_desc(p).a_k_major());
  EXPECT_TRUE(make_desc(p).b_n_major());
  EXPECT_FALSE(make_desc(p).b_k_major());
  p.b = transposed_ghost({32, 48});
  EXPECT_TRUE(make_desc(p).b_k_major());
  p.a = transposed_ghost({64, 32});
  EXPECT_TRUE(make_desc(p).a_m_major());
  p.c = transposed_ghost({64, 48});
  EXPECT_TRUE(make_desc(p).c_m_major());
}

TEST(MatmulDesc, VectorsAreMatricesWithAGoodPitch) {
  GemmCall row = product_of({1, 33}, {33, 64});
  row.a = Array({1, 33}, {1, 1}, DType::kFloat32, row.a.buffer(), 0);
  const MatmulDesc desc = make_desc(row);
  EXPECT_TRUE(desc.a_k_major());
  EXPECT_EQ(desc.problem.a_m, 48);
  EXPECT_EQ(desc.align_a, 16);
  // A column of a wider matrix: its rows are the pitch.
  GemmCall column = product_of({64, 32}, {32, 1});
  column.b = Array({32, 1}, {100, 7}, DType::kFloat32, column.b.buffer(), 0);
  EXPECT_TRUE(make_desc(column).b_n_major());
  EXPECT_EQ(make_desc(column).problem.b_k, 100);
}

TEST(MatmulDesc, EpilogueKeepsBatchesApartWhereItMust) {
  GemmCall p = product_of({4, 8, 16}, {4, 16, 32});
  p.b = broadcast_to(ghost({16, 32}), {4, 16, 32}, "test");
  DescFit fit = DescFit::kScales;
  EXPECT_EQ(make_desc(p, &fit).problem.m, 32);  // rows of a stack
  EXPECT_EQ(fit, DescFit::kFits);
  p.epilogue.bias = ghost({32});
  EXPECT_EQ(make_desc(p).problem.m, 32);
  EXPECT_EQ(make_desc(p).steps.bias, 1);
  p.epilogue.residual = ghost({4, 8, 32});
  EXPECT_EQ(make_desc(p).problem.m, 32);
  EXPECT_EQ(make_desc(p).steps.residual_m, 32);
  p.epilogue.residual = broadcast_to(ghost({8, 32}), {4, 8, 32}, "test");
  EXPECT_EQ(make_desc(p).problem.m, 8);
  EXPECT_EQ(make_desc(p).steps.residual_batch, 0);
  p.epilogue.residual = std::nullopt;
  p.quant_a = {.layout = plan::ScaleLayout::kRow, .scales = ghost({8})};
  EXPECT_EQ(make_desc(p, &fit).problem.m, 8);
  EXPECT_EQ(fit, DescFit::kFits);
  p.quant_a = {.layout = plan::ScaleLayout::kRow, .scales = ghost({4, 8})};
  EXPECT_EQ(make_desc(p, &fit).problem.m, 32);
  EXPECT_EQ(make_desc(p).steps.scale_a, 1);
}

TEST(MatmulDesc, SaysWhatDoesNotFit) {
  DescFit fit = DescFit::kFits;
  GemmCall p = product_of({4, 8, 16}, {4, 16, 32});
  p.quant_a = {.layout = plan::ScaleLayout::kRow, .scales = ghost({4, 8})};
  make_desc(p, &fit);
  EXPECT_EQ(fit, DescFit::kScales);
  p = product_of({2, 3, 8, 16}, {2, 3, 16, 32});
  p.epilogue.residual = broadcast_to(ghost({2, 1, 8, 32}), {2, 3, 8, 32}, "test");
  make_desc(p, &fit);
  EXPECT_EQ(fit, DescFit::kResidual);
}

TEST(MatmulDesc, FlagsAndText) {
  GemmCall p = product_of({64, 32}, {32, 48}, DType::kBFloat16);
  EXPECT_EQ(epilogue_flags(p), 0u);
  p.epilogue.alpha = 2.0f;
  p.epilogue.bias = ghost({48}, DType::kBFloat16);
  p.epilogue.activation = Activation::kSilu;
  EXPECT_EQ(make_desc(p).epilogue, 1u | 4u | 3u << 4);
  EXPECT_EQ(to_string(make_desc(p)),
            "m=64 n=48 k=32, a=bfloat16[32, 1] align 16, b=bfloat16[48, 1] align 16, "
            "c=bfloat16[48, 1] align 16, sums float32, epilogue alpha+bias+silu");
  p.quant_a = {.layout = plan::ScaleLayout::kRow, .scales = ghost({64})};
  EXPECT_EQ(to_string(make_desc(p)),
            "m=64 n=48 k=32, a=bfloat16[32, 1] align 16 (float32 scale per row), "
            "b=bfloat16[48, 1] align 16, c=bfloat16[48, 1] align 16, sums float32, "
            "epilogue scales+bias+silu");
  p.quant_a = {};
  p.epilogue.residual = ghost({64, 48}, DType::kBFloat16);
  p.epilogue.beta = 0.0f;  // not read
  EXPECT_EQ(make_desc(p).epilogue, 1u | 4u | 3u << 4);
  p.epilogue.beta = 1.0f;
  p.quant_b = {.layout = plan::ScaleLayout::kTensor, .scales = ghost({1})};
  EXPECT_EQ(make_desc(p).epilogue, 2u | 4u | 8u | 3u << 4);
}

TEST(MatmulDesc, RawIsContiguousSums) {
  GemmCall p = product_of({3, 64, 32}, {3, 32, 48}, DType::kBFloat16);
  p.epilogue.activation = Activation::kRelu;
  const MatmulDesc raw = raw_desc(make_desc(p));
  EXPECT_EQ(raw.epilogue, 0u);
  EXPECT_EQ(raw.dtype_c, DType::kFloat32);
  EXPECT_EQ(raw.problem.c_m, 48);
  EXPECT_EQ(raw.problem.batch_c, (Dims{64 * 48}));
  EXPECT_EQ(raw.align_c, 16);
}

TEST(MatmulDesc, TransposedTwiceIsTheSame) {
  GemmCall p = product_of({64, 36}, {36, 48}, DType::kFloat8E4M3FN);
  p.b = ghost({36, 48}, DType::kFloat8E5M2);
  const MatmulDesc desc = make_desc(p);
  EXPECT_EQ(transposed(transposed(desc)), desc);
  EXPECT_EQ(transposed(desc).a.dtype, DType::kFloat8E5M2);
  EXPECT_EQ(transposed(desc).align_b, desc.align_a);
}

TEST(PlanGeneral, LargeTilesWhenThereAreEnough) {
  const MatmulPlan plan = general({4096, 4096}, {4096, 4096});
  EXPECT_EQ(kernel_of(plan), GeneralKernel::kTile128);
  EXPECT_EQ(plan.splits, 1);
  EXPECT_EQ(plan.k_per_split, 4096);
  EXPECT_EQ(plan.tile_m, 128);
  EXPECT_EQ(kernel_of(general({1024, 1024}, {1024, 1024})), GeneralKernel::kTile64);
  EXPECT_EQ(kernel_of(general({4096, 4096}, {4096, 4096}, DType::kFloat64)),
            GeneralKernel::kTile64);
}

TEST(PlanGeneral, PartsOfKForFewTiles) {
  const MatmulPlan plan = general({64, 16384}, {16384, 64});
  EXPECT_EQ(kernel_of(plan), GeneralKernel::kTile64);
  EXPECT_EQ(plan.splits, 64);
  EXPECT_EQ(plan.k_per_split, 256);
  EXPECT_EQ(general({64, 100}, {100, 64}).splits, 1);
}

TEST(PlanGeneral, VectorsWalkAlongMemory) {
  EXPECT_EQ(kernel_of(general({4096, 4096}, {4096, 1})), GeneralKernel::kRows);
  EXPECT_FALSE(general({4096, 4096}, {4096, 1}).transpose);
  const MatmulPlan columns = general({1, 4096}, {4096, 4096});
  EXPECT_EQ(kernel_of(columns), GeneralKernel::kDirect);
  EXPECT_FALSE(columns.transpose);
  EXPECT_EQ(columns.splits, 64);
  EXPECT_EQ(general({1, 1 << 28}, {1 << 28, 1}).splits, 4096);
}

TEST(PlanGeneral, SmallAndEmpty) {
  EXPECT_EQ(kernel_of(general({10000, 3, 3}, {10000, 3, 3})), GeneralKernel::kDirect);
  EXPECT_EQ(kernel_of(general({4096, 1}, {1, 4096})), GeneralKernel::kDirect);
  EXPECT_EQ(kernel_of(general({64, 0}, {0, 64})), GeneralKernel::kDirect);
  EXPECT_EQ(general({64, 0}, {0, 64}).splits, 1);
}

TEST(PlanGeneral, BatchInvariantSumsInOneOrder) {
  for (std::int64_t m = 1; m <= 300; m += 13) {
    GemmCall p = product_of({m, 8192}, {8192, 512});
    p.batch_invariant = true;
    const MatmulPlan plan = plan_general(make_desc(p), h200());
    EXPECT_EQ(plan.splits, 1) << m;
    EXPECT_NE(kernel_of(plan), GeneralKernel::kRows) << m;
  }
}

TEST(PlanGeneral, PredictsMoreForMore) {
  const float small = general({256, 256}, {256, 256}).predicted_us;
  const float medium = general({2048, 2048}, {2048, 2048}).predicted_us;
  const float large = general({8192, 8192}, {8192, 8192}).predicted_us;
  EXPECT_GT(small, 2.0f);
  EXPECT_LT(small, 40.0f);
  EXPECT_GT(medium, 10 * small);
  EXPECT_NEAR(large / medium, 64.0f, 16.0f);
  EXPECT_GT(general({4096, 4096}, {4096, 1}, DType::kFloat32).predicted_us, 10.0f);
}

TEST(PlanMatmul, CheapestFirstAndTheEpilogueIsNotFree) {
  GemmCall p = product_of({1024, 1024}, {1024, 1024}, DType::kBFloat16);
  const auto plans = propose_matmul(make_desc(p), h200());
  ASSERT_FALSE(plans.empty());
  for (std::size_t i = 1; i < plans.size(); ++i)
    EXPECT_LE(plans[i - 1].predicted_us, plans[i].predicted_us);
  const MatmulPlan plain = plan_general(make_desc(p), h200());
  p.epilogue.activation = Activation::kGelu;
  EXPECT_GT(plan_general(make_desc(p), h200()).predicted_us, plain.predicted_us);
  EXPECT_FALSE(to_string(plans.front()).empty());
}

TEST(PlanMatmul, Text) {
  MatmulPlan plan = general({64, 16384}, {16384, 64});
  EXPECT_EQ(to_string(plan), "general(kernel=2, tile=64x64x16, splits=64 of 256)");
  EXPECT_STREQ(name(MatmulEngine::general), "general");
}

}  // namespace
}  // namespace gpk::ops::gemm
