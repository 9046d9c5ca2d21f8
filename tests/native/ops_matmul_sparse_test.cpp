// Plans of 2:4 sparse weights, and their format as an operand. Pure values, no GPU.
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "ops/matmul/formats.h"
#include "ops/matmul/packed_operand.h"
#include "ops/matmul/plan.h"

namespace gpk::ops::gemm {
namespace {

const PackedLayout kSparseLayout{QuantFormat::kSparse24, 0, false, false};

MatmulDesc sparse_desc(std::int64_t m, std::int64_t n, std::int64_t k,
                       DType dtype = DType::kBFloat16) {
  MatmulDesc desc;
  desc.a.dtype = desc.dtype_c = dtype;
  desc.b = operand_format(kSparseLayout, DType::kBFloat16);
  MatmulProblem& p = desc.problem;
  p.m = m;
  p.n = n;
  p.k = k;
  p.a_m = p.b_n = k;
  p.c_m = n;
  p.a_k = p.b_k = p.c_n = 1;
  return desc;
}

TEST(MatmulSparse, LayoutIsItsOperandFormat) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    const plan::OperandFormat format = operand_format(kSparseLayout, dtype);
    EXPECT_EQ(format.dtype, dtype);
    EXPECT_EQ(packed_layout(format), kSparseLayout);
  }
  EXPECT_EQ(to_string(operand_format(kSparseLayout, DType::kFloat16)), "float16 2:4 sparse");
  EXPECT_EQ(kSparseLayout.row_bytes(64), 64);
  EXPECT_EQ(kSparseLayout.row_bytes(65), 80);
  EXPECT_EQ(kSparseLayout.row_bytes(1), 16);
}

TEST(MatmulSparse, EnginesThatTakeIt) {
  EXPECT_EQ(engines_taking(sparse_desc(1, 8, 64)),
            (std::vector{MatmulEngine::sparse, MatmulEngine::dequantize}));
  for (const DType other : {DType::kFloat16, DType::kFloat32})
    EXPECT_EQ(engines_taking(sparse_desc(1, 8, 64, other)), std::vector{MatmulEngine::dequantize});
  EXPECT_THROW(check_formats(sparse_desc(1, 8, 64, DType::kInt8), "linear"), InvalidArgument);
}

TEST(MatmulSparse, FewRowsAreSplitAlike) {
  const GemmMachine h200{};
  for (const auto& [n, k] :
       {std::pair{4096, 4096}, {512, 16384}, {28672, 8192}, {20, 136}, {7, 3}}) {
    std::set<std::pair<std::int64_t, std::int64_t>> splits;
    for (std::int64_t m = 1; m <= 64; ++m) {
      MatmulDesc desc = sparse_desc(m, n, k);
      desc.few_rows = desc.batch_invariant = true;
      const MatmulPlan plan = plan_matmul(desc, h200);
      EXPECT_EQ(plan.engine, MatmulEngine::sparse) << m << ": " << n << " x " << k;
      splits.emplace(plan.splits, plan.k_per_split);
    }
    EXPECT_EQ(splits.size(), 1u) << n << " x " << k;
    EXPECT_LE(splits.begin()->first, 8);  // from 16 on the order of adding depends on m
  }
}

TEST(MatmulSparse, WhereItIsNotChosen) {
  MatmulDesc desc = sparse_desc(100, 4096, 4096);
  EXPECT_EQ(plan_matmul(desc, {}).engine, MatmulEngine::sparse);
  GemmMachine machine{};
  machine.sm = 75;
  EXPECT_EQ(plan_matmul(desc, machine).engine, MatmulEngine::dequantize);
  machine = {};
  machine.jit = false;
  EXPECT_EQ(plan_matmul(desc, machine).engine, MatmulEngine::dequantize);
  desc.batch_invariant = true;
  EXPECT_EQ(plan_matmul(desc, {}).engine, MatmulEngine::dequantize);
}

TEST(MatmulSparse, EveryPlanHasAKernel) {
  std::vector<jit::KernelSpec> specs;
  enumerate_sparse(specs);
  std::set<std::string> known;
  for (const jit::KernelSpec& spec : specs)
    EXPECT_TRUE(known.insert(spec.expression).second) << spec.expression;
  for (const int sm : {80, 86, 89, 90, 100, 120}) {
    GemmMachine machine{};
    machine.sm = sm;
    if (sm == 86 || sm == 89 || sm == 120) machine.shared_bytes = 99 * 1024;
    for (const std::int64_t m : {1, 17, 65, 1000})
      for (const std::int64_t k : {1, 33, 4096}) {
        const MatmulDesc desc = sparse_desc(m, 1024, k);
        int found = 0;
        for (const MatmulPlan& plan : propose_matmul(desc, machine)) {
          if (plan.engine != MatmulEngine::sparse) continue;
          ++found;
          EXPECT_TRUE(known.contains(plan_spec(desc, plan).expression)) << to_string(plan);
          EXPECT_EQ(plan.k_per_split % 64, 0);
        }
        EXPECT_GE(found, 3) << "SM " << sm;
      }
  }
}

}  // namespace
}  // namespace gpk::ops::gemm
