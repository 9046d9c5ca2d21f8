// Plans of mxfp8, mxfp4 and nvfp4 on both sides. Pure values, no GPU.
#include <gtest/gtest.h>

#include <set>

#include "ops/matmul/formats.h"
#include "ops/matmul/plan.h"
#include "ops/matmul/scaled_operands.h"

namespace gpk::ops::gemm {
namespace {

constexpr QuantFormat kBlockFormats[] = {QuantFormat::kMxfp8, QuantFormat::kMxfp4,
                                         QuantFormat::kNvfp4};

PackedLayout layout_of(QuantFormat format) {
  return make_layout(format, std::nullopt, false, false, "test");
}

MatmulDesc scaled_desc(QuantFormat a, QuantFormat b, std::int64_t m, std::int64_t n,
                       std::int64_t k) {
  MatmulDesc desc;
  desc.a = operand_format(layout_of(a));
  desc.b = operand_format(layout_of(b));
  desc.dtype_c = DType::kFloat32;
  MatmulProblem& p = desc.problem;
  p.m = m;
  p.n = n;
  p.k = k;
  p.a_m = p.b_n = (k + 31) / 32 * 32;
  p.c_m = n;
  p.a_k = p.b_k = p.c_n = 1;
  return desc;
}

TEST(MatmulScaledMma, EnginesThatTakeIt) {
  for (const QuantFormat format : kBlockFormats) {
    const MatmulDesc desc = scaled_desc(format, format, 8, 8, 64);
    EXPECT_EQ(scaled_layout(desc), layout_of(format));
    EXPECT_EQ(engines_taking(desc),
              (std::vector{MatmulEngine::scaled_mma, MatmulEngine::dequantize}));
    MatmulDesc narrow = desc;
    narrow.dtype_c = DType::kBFloat16;
    EXPECT_TRUE(engines_taking(narrow).empty());
  }
  const MatmulDesc mixed = scaled_desc(QuantFormat::kMxfp8, QuantFormat::kMxfp4, 8, 8, 64);
  EXPECT_FALSE(both_scaled(mixed));
  EXPECT_TRUE(engines_taking(mixed).empty());
}

TEST(MatmulScaledMma, NativeOnSm120Alone) {
  for (const QuantFormat format : kBlockFormats)
    for (const int sm : {80, 89, 90, 100, 120, 121}) {
      GemmMachine machine{};
      machine.sm = sm;
      if (sm == 89 || sm >= 120) machine.shared_bytes = 99 * 1024;
      for (const std::int64_t m : {1, 100, 4096}) {
        const MatmulPlan plan = plan_matmul(scaled_desc(format, format, m, 4096, 4096), machine);
        EXPECT_EQ(plan.engine, sm == 120 ? MatmulEngine::scaled_mma : MatmulEngine::dequantize)
            << name(format) << ", " << m << ", SM " << sm;
      }
    }
}

TEST(MatmulScaledMma, EveryPlanHasAKernel) {
  std::vector<jit::KernelSpec> specs;
  enumerate_scaled_mma(specs);
  std::set<std::string> known;
  for (const jit::KernelSpec& spec : specs) {
    EXPECT_TRUE(known.insert(spec.expression).second) << spec.expression;
    EXPECT_EQ(spec.exact_sms, std::vector{120});
  }
  GemmMachine machine{};
  machine.sm = 120;
  machine.shared_bytes = 99 * 1024;
  for (const QuantFormat format : kBlockFormats)
    for (const std::int64_t k : {1, 33, 4096}) {
      const MatmulDesc desc = scaled_desc(format, format, 70, 1000, k);
      int found = 0;
      for (const MatmulPlan& plan : propose_matmul(desc, machine)) {
        if (plan.engine != MatmulEngine::scaled_mma) continue;
        ++found;
        EXPECT_TRUE(known.contains(plan_spec(desc, plan).expression)) << to_string(plan);
        EXPECT_EQ(plan.k_per_split % 128, 0);
      }
      EXPECT_EQ(found, 2);
    }
}

}  // namespace
}  // namespace gpk::ops::gemm
