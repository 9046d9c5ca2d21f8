// Plans of packed weights, and their formats as operands. Pure values, no GPU.
#include <gtest/gtest.h>

#include <set>

#include "ops/matmul/packed_operand.h"
#include "ops/matmul/plan.h"

namespace gpk::ops::gemm {
namespace {

std::vector<PackedLayout> every_layout() {
  std::vector<PackedLayout> layouts;
  for (const QuantFormat format : {QuantFormat::kInt8, QuantFormat::kInt4})
    for (const bool zero_points : {false, true})
      for (const std::int64_t group : {0, 32, 64, 128})
        layouts.push_back(make_layout(format, group, zero_points, false, "test"));
  for (const QuantFormat format : {QuantFormat::kFp8, QuantFormat::kFp8E5M2, QuantFormat::kNvfp4,
                                   QuantFormat::kMxfp4, QuantFormat::kMxfp8, QuantFormat::kNf4})
    layouts.push_back(make_layout(format, std::nullopt, false, false, "test"));
  layouts.push_back(make_layout(QuantFormat::kFp8, std::nullopt, false, true, "test"));
  layouts.push_back(make_layout(QuantFormat::kFp8, 128, false, false, "test"));
  return layouts;
}

MatmulDesc packed_desc(const PackedLayout& layout, std::int64_t m, std::int64_t n, std::int64_t k) {
  MatmulDesc desc;
  desc.a.dtype = desc.dtype_c = DType::kBFloat16;
  desc.b = operand_format(layout);
  if (desc.b.scales == plan::ScaleLayout::kColumn) desc.epilogue = kEpilogueScales;
  MatmulProblem& p = desc.problem;
  p.m = m;
  p.n = n;
  p.k = k;
  p.a_m = p.b_n = k;
  p.c_m = n;
  p.a_k = p.b_k = p.c_n = 1;
  return desc;
}

TEST(MatmulPacked, LayoutsAreTheirOperandFormats) {
  for (const PackedLayout& layout : every_layout())
    EXPECT_EQ(packed_layout(operand_format(layout)), layout) << to_string(layout);
  EXPECT_FALSE(packed_layout({.dtype = DType::kInt8}).has_value());
}

TEST(MatmulPacked, FewRowsAreSplitAlike) {
  const GemmMachine h200{};
  for (const PackedLayout& layout : every_layout())
    for (const auto& [n, k] : {std::pair{4096, 4096}, {512, 16384}, {28672, 8192}, {20, 136}}) {
      std::set<std::pair<std::int64_t, std::int64_t>> splits;
      for (std::int64_t m = 1; m <= 64; ++m) {
        MatmulDesc desc = packed_desc(layout, m, n, k);
        desc.few_rows = desc.batch_invariant = true;
        const MatmulPlan plan = plan_matmul(desc, h200);
        EXPECT_EQ(plan.engine, MatmulEngine::packed);
        EXPECT_GE(plan.tile_m, m);
        splits.emplace(plan.splits, plan.k_per_split);
      }
      EXPECT_EQ(splits.size(), 1u) << to_string(layout) << ", " << n << " x " << k;
    }
}

TEST(MatmulPacked, ManyRowsAreDequantised) {
  const GemmMachine h200{};
  const PackedLayout int4 = make_layout(QuantFormat::kInt4, 128, false, false, "test");
  EXPECT_EQ(plan_matmul(packed_desc(int4, 1, 4096, 4096), h200).engine, MatmulEngine::packed);
  EXPECT_EQ(plan_matmul(packed_desc(int4, 64, 4096, 4096), h200).engine, MatmulEngine::packed);
  EXPECT_EQ(plan_matmul(packed_desc(int4, 8192, 4096, 4096), h200).engine,
            MatmulEngine::dequantize);
  EXPECT_EQ(plan_matmul(packed_desc(int4, 65, 4096, 4100), h200).engine, MatmulEngine::dequantize);
  EXPECT_EQ(plan_matmul(packed_desc(int4, 1, 4096, 4100), h200).engine, MatmulEngine::dequantize);
  MatmulDesc invariant = packed_desc(int4, 1, 4096, 4096);
  invariant.batch_invariant = true;
  EXPECT_EQ(plan_matmul(invariant, h200).engine, MatmulEngine::dequantize);
  GemmMachine without_nvrtc{};
  without_nvrtc.jit = false;
  EXPECT_EQ(plan_matmul(packed_desc(int4, 1, 4096, 4096), without_nvrtc).engine,
            MatmulEngine::dequantize);
}

float predicted_us(const MatmulDesc& desc, MatmulEngine engine) {
  for (const MatmulPlan& plan : propose_matmul(desc, GemmMachine{}))
    if (plan.engine == engine) return plan.predicted_us;
  return 0.0f;
}

// docs/benchmarks/h200-packed.json, rows 256: tiles dequantised in the main loop took these times,
// the dense GEMM 165 us.
TEST(MatmulPacked, TheModelKnowsWhatWasMeasured) {
  const std::pair<QuantFormat, float> measured[] = {{QuantFormat::kInt8, 449.5f},
                                                    {QuantFormat::kFp8, 462.6f},
                                                    {QuantFormat::kInt4, 502.6f},
                                                    {QuantFormat::kNvfp4, 512.5f}};
  for (const auto& [format, us] : measured) {
    const PackedLayout layout = make_layout(format, std::nullopt, false, false, "test");
    const MatmulDesc desc = packed_desc(layout, 256, 28672, 8192);
    EXPECT_NEAR(predicted_us(desc, MatmulEngine::packed_gemm), us, 0.12f * us) << name(format);
    EXPECT_EQ(plan_matmul(desc, GemmMachine{}).engine, MatmulEngine::dequantize) << name(format);
  }
}

// The dense weights are written and read, and the GEMM takes what its own plan says.
TEST(MatmulPacked, DequantisingCostsTheDenseGemmAndItsBytes) {
  const PackedLayout int4 = make_layout(QuantFormat::kInt4, 128, false, false, "test");
  for (const std::int64_t m : {1, 128, 300, 4096})
    for (const auto& [n, k] : {std::pair{28672, 8192}, {4096, 4096}, {640, 1288}}) {
      const MatmulDesc packed = packed_desc(int4, m, n, k);
      MatmulDesc dense = packed;
      dense.b = {.dtype = DType::kBFloat16};
      const float pass = predicted_us(packed, MatmulEngine::dequantize) -
                         plan_matmul(dense, GemmMachine{}).predicted_us;
      const double bytes = 2.5 * static_cast<double>(n) * static_cast<double>(k);
      EXPECT_GT(pass, bytes / plan::dram_bytes_per_us(GemmMachine{}));
      EXPECT_LT(pass,
                2 * plan::kLaunchUs + bytes / (0.75 * plan::dram_bytes_per_us(GemmMachine{})));
    }
}

TEST(MatmulPacked, TilesAreDequantisedInTheMainLoop) {
  for (const int sm : {80, 89, 90, 120}) {
    GemmMachine machine{};
    machine.sm = sm;
    if (sm == 89 || sm == 120) machine.shared_bytes = 99 * 1024;
    for (const PackedLayout& layout : every_layout())
      for (const std::int64_t m : {65, 128}) {
        const MatmulPlan plan = plan_matmul(packed_desc(layout, m, 4096, 4096), machine);
        EXPECT_EQ(plan.engine, MatmulEngine::packed_gemm)
            << to_string(layout) << ", " << m << ", SM " << sm;
      }
    MatmulDesc invariant = packed_desc(every_layout()[0], 65, 4096, 4096);
    invariant.batch_invariant = true;
    EXPECT_EQ(plan_matmul(invariant, machine).engine, MatmulEngine::dequantize);
  }
}

TEST(MatmulPacked, EveryPlanHasAKernel) {
  std::vector<jit::KernelSpec> specs;
  enumerate_packed(specs);
  enumerate_packed_gemm(specs);
  std::set<std::string> known;
  for (const jit::KernelSpec& spec : specs)
    EXPECT_TRUE(known.insert(spec.expression).second) << spec.expression;
  const GemmMachine h200{};
  for (const PackedLayout& layout : every_layout())
    for (const std::int64_t n : {20, 1024, 4096, 65536})
      for (const std::int64_t m : {1, 9, 17, 33, 64, 65, 150}) {
        MatmulDesc desc = packed_desc(layout, m, n, 4096);
        desc.few_rows = desc.batch_invariant = m <= 64;
        const MatmulPlan plan = plan_matmul(desc, h200);
        if (plan.engine == MatmulEngine::dequantize) continue;  // a GEMM of its own plan
        EXPECT_TRUE(known.contains(plan_spec(desc, plan).expression)) << to_string(plan);
      }
}

}  // namespace
}  // namespace gpk::ops::gemm
