// Plans and checks of the random ops.
#include <gtest/gtest.h>

#include "expect.h"
#include "ops/cpu_backend.h"
#include "ops/random/generate.h"
#include "ops/random/random.h"

namespace gpk::ops::random {
namespace {

TEST(PlanGenerate, OneStoreOfSixteenBytes) {
  EXPECT_EQ(plan_generate(DrawKind::kNormal, DType::kFloat32, 2048, 256),
            (GeneratePlan{1, 4, true, 1}));
  EXPECT_EQ(plan_generate(DrawKind::kNormal, DType::kFloat32, 2049, 256),
            (GeneratePlan{1, 4, true, 2}));
  EXPECT_EQ(plan_generate(DrawKind::kUniform, DType::kFloat64, 1, 16),
            (GeneratePlan{1, 2, true, 1}));
  EXPECT_EQ(plan_generate(DrawKind::kUniform, DType::kBFloat16, 4096, 16),
            (GeneratePlan{2, 8, true, 1}));
  EXPECT_EQ(plan_generate(DrawKind::kInteger, DType::kUInt8, 8193, 16),
            (GeneratePlan{4, 16, true, 2}));
  EXPECT_EQ(plan_generate(DrawKind::kInteger, DType::kUInt64, 1, 32),
            (GeneratePlan{1, 4, true, 1}));
}

TEST(PlanGenerate, KnowsMisalignedArrays) {
  EXPECT_FALSE(plan_generate(DrawKind::kNormal, DType::kFloat32, 8, 8).aligned);
  EXPECT_FALSE(plan_generate(DrawKind::kInteger, DType::kUInt64, 8, 16).aligned);
  EXPECT_TRUE(plan_generate(DrawKind::kWideInteger, DType::kUInt64, 8, 16).aligned);
  EXPECT_EQ(to_string(plan_generate(DrawKind::kBernoulli, DType::kBool, 1, 1)),
            "generate(blocks=4, elems=16, aligned=false, num_blocks=1)");
}

TEST(RandomBlocks, RoundsUpWithoutOverflow) {
  EXPECT_EQ(random_blocks(0, false), 0);
  EXPECT_EQ(random_blocks(5, false), 2);
  EXPECT_EQ(random_blocks(5, true), 3);
  EXPECT_EQ(random_blocks(INT64_MAX, true), (std::int64_t{1} << 62));
}

class RandomOnCpu : public ::testing::Test {
 protected:
  void SetUp() override {
    set_cpu_backend([this](const CpuCall& call) { last_ = call; });
  }
  void TearDown() override { set_cpu_backend(nullptr); }
  static RandomResult of(DType dtype) { return {"test", {3}, dtype, Device{}, std::nullopt}; }
  template <class T>
  T argument(std::size_t i) {
    return std::get<T>(std::get<Scalar>(last_->args[i]));
  }
  std::optional<CpuCall> last_;
};

TEST_F(RandomOnCpu, HandsOverKeyPositionAndParameters) {
  random_uniform(of(DType::kFloat32), -1.0, 3.0, {7, 8, 9});
  EXPECT_STREQ(last_->op, "random_uniform");
  EXPECT_EQ(argument<std::uint64_t>(0), 7u);
  EXPECT_EQ(argument<std::uint64_t>(1), 8u);
  EXPECT_EQ(argument<std::uint64_t>(2), 9u);
  EXPECT_EQ(argument<double>(3), -1.0);
  EXPECT_EQ(argument<double>(4), 4.0);
  random_integers(of(DType::kInt64), Scalar(std::int64_t{INT64_MIN}), Scalar(INT64_MAX), {});
  EXPECT_EQ(argument<std::uint64_t>(3), std::uint64_t{1} << 63);
  EXPECT_EQ(argument<std::uint64_t>(4), UINT64_MAX);
  random_bernoulli(of(DType::kBool), 1.0, {});
  EXPECT_EQ(argument<std::uint64_t>(3), std::uint64_t{1} << 32);
}

TEST_F(RandomOnCpu, RefusesWhatNumPyRefuses) {
  using Kind = Error::Kind;
  const auto integers = [](DType dtype, std::int64_t low, std::int64_t high) {
    return [=] { random_integers(of(dtype), Scalar(low), Scalar(high), {}); };
  };
  EXPECT_EQ(kind_of(integers(DType::kInt8, 3, 2)), Kind::kValue);
  EXPECT_EQ(kind_of(integers(DType::kInt8, -129, 2)), Kind::kValue);
  EXPECT_EQ(kind_of(integers(DType::kUInt64, -1, 2)), Kind::kValue);
  EXPECT_EQ(kind_of(integers(DType::kBool, 0, 2)), Kind::kValue);
  EXPECT_EQ(kind_of(integers(DType::kFloat32, 0, 2)), Kind::kType);
  EXPECT_EQ(kind_of(integers(DType::kInt4, 0, 2)), Kind::kType);
  EXPECT_EQ(kind_of([] { random_uniform(of(DType::kFloat32), 1.0, 0.0, {}); }), Kind::kValue);
  EXPECT_EQ(kind_of([] { random_uniform(of(DType::kFloat32), 0.0, 1e39, {}); }), Kind::kOverflow);
  EXPECT_EQ(kind_of([] { random_normal(of(DType::kInt32), 0.0, 1.0, {}); }), Kind::kType);
  EXPECT_EQ(kind_of([] { random_normal(of(DType::kFloat32), 0.0, -1.0, {}); }), Kind::kValue);
  EXPECT_FALSE(last_);
}

}  // namespace
}  // namespace gpk::ops::random
