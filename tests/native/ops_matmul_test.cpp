// GEMM descriptors and checks.
#include <gtest/gtest.h>

#include "base/error.h"
#include "core/view.h"
#include "ops/cpu_backend.h"
#include "ops/matmul/contraction.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul/problem.h"

namespace gpk::ops::gemm {
namespace {

Array array(const Dims& shape, DType dtype = DType::kFloat32) {
  return Array::empty(shape, dtype, Device{});
}

MatmulProblem problem(const Array& a, const Array& b, const Array& c) {
  return make_problem(a, b, c);
}

TEST(MatmulProblem, RowsOfAStackAreRows) {
  const Array weights = array({5, 6});
  const MatmulProblem p = problem(array({2, 3, 4, 5}), broadcast_to(weights, {2, 3, 5, 6}, "test"),
                                  array({2, 3, 4, 6}));
  EXPECT_EQ(p.num_batches(), 1);
  EXPECT_EQ(p.m, 24);
  EXPECT_EQ(p.n, 6);
  EXPECT_EQ(p.a_m, 5);
  EXPECT_EQ(p.c_m, 6);
}

TEST(MatmulProblem, ColumnsOfAStackAreColumnsOnlyWhereTheyLieTogether) {
  const Array left = array({4, 5});
  const MatmulProblem p =
      problem(broadcast_to(left, {3, 4, 5}, "test"), array({3, 5, 6}), array({3, 4, 6}));
  EXPECT_EQ(p.num_batches(), 3);  // the columns of two matrices are not evenly spaced
  const MatmulProblem vectors =
      problem(broadcast_to(left, {3, 4, 5}, "test"), array({3, 5, 1}), array({3, 4, 1}));
  EXPECT_EQ(vectors.num_batches(), 1);
  EXPECT_EQ(vectors.n, 3);
  EXPECT_EQ(vectors.b_n, 5);
  EXPECT_EQ(vectors.c_n, 4);
}

TEST(MatmulProblem, JoinsBatchDimensions) {
  const MatmulProblem p = problem(array({2, 3, 4, 5}), array({2, 3, 5, 6}), array({2, 3, 4, 6}));
  EXPECT_EQ(p.batch_shape, (Dims{6}));
  EXPECT_EQ(p.batch_a, (Dims{20}));
  EXPECT_EQ(p.batch_b, (Dims{30}));
  EXPECT_EQ(p.batch_c, (Dims{24}));
}

TEST(MatmulProblem, TransposedTwiceIsTheSame) {
  const MatmulProblem p = problem(array({2, 4, 5}), array({2, 5, 6}), array({2, 4, 6}));
  EXPECT_EQ(transposed(transposed(p)), p);
  EXPECT_EQ(transposed(p).m, 6);
  EXPECT_EQ(transposed(p).a_m, p.b_n);
}

class MatmulOnCpu : public ::testing::Test {
 protected:
  void SetUp() override {
    set_cpu_backend([this](const CpuCall& call) { calls_.push_back(call); });
  }
  void TearDown() override { set_cpu_backend(nullptr); }
  std::vector<CpuCall> calls_;
};

TEST_F(MatmulOnCpu, ShapesFollowNumPy) {
  const auto shape = [](const Dims& a, const Dims& b) {
    return matmul(array(a), array(b)).shape();
  };
  EXPECT_EQ(shape({3}, {3}), (Dims{}));
  EXPECT_EQ(shape({3}, {3, 4}), (Dims{4}));
  EXPECT_EQ(shape({2, 3}, {3}), (Dims{2}));
  EXPECT_EQ(shape({5, 1, 2, 3}, {7, 3, 4}), (Dims{5, 7, 2, 4}));
  EXPECT_EQ(calls_.size(), 4u);
  EXPECT_EQ(shape({0, 3}, {3, 4}), (Dims{0, 4}));
  EXPECT_EQ(calls_.size(), 4u);  // nothing to compute
}

TEST_F(MatmulOnCpu, RefusesBeforeAnythingRuns) {
  EXPECT_THROW(matmul(array({2, 3}), array({4, 5})), InvalidArgument);
  EXPECT_THROW(matmul(array({}), array({4})), InvalidArgument);
  EXPECT_THROW(matmul(array({2, 2}), array({2, 2}), array({2, 3})), InvalidArgument);
  EXPECT_THROW(matmul(array({2, 2}, DType::kFloat64), array({2, 2}), std::nullopt, true), Error);
  EXPECT_THROW(einsum({array({2, 2})}, {{0}}, {0}), InvalidArgument);
  EXPECT_THROW(einsum({array({2, 3})}, {{0, 0}}, {0}), InvalidArgument);
  EXPECT_THROW(einsum({array({2, 3})}, {{0, 1}}, {2}), InvalidArgument);
  EXPECT_TRUE(calls_.empty());
}

TEST_F(MatmulOnCpu, ContractionsNeedNoCopyWhereAxesLieTogether) {
  const Array result = einsum({array({2, 3, 4, 5}), array({2, 6, 4, 5})},
                              {{0, 1, 2, 3}, {0, 4, 2, 3}}, {0, 2, 1, 4});
  EXPECT_EQ(result.shape(), (Dims{2, 4, 3, 6}));
  EXPECT_TRUE(result.is_contiguous());
  ASSERT_EQ(calls_.size(), 1u);
  EXPECT_STREQ(calls_[0].op, "matmul");
  EXPECT_EQ(tensordot(array({2, 3, 4}), array({4, 3, 5}), {2, 1}, {0, 1}).shape(), (Dims{2, 5}));
}

}  // namespace
}  // namespace gpk::ops::gemm
