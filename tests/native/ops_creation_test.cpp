#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/error.h"
#include "core/result_type.h"
#include "ops/creation/ramp.h"
#include "ops/creation/triangle.h"

namespace gpk {
namespace {

TEST(ResultType, DoesNotDependOnTheOrder) {
  const DType a[] = {DType::kInt16, DType::kUInt16, DType::kFloat32};
  const DType b[] = {DType::kFloat32, DType::kUInt16, DType::kInt16};
  EXPECT_EQ(result_type(a, {}, "op"), DType::kFloat32);
  EXPECT_EQ(result_type(b, {}, "op"), DType::kFloat32);
}

TEST(ResultType, NumbersAreWeak) {
  const DType array[] = {DType::kInt8};
  const Scalar numbers[] = {Scalar(std::int64_t{3}), Scalar(true)};
  EXPECT_EQ(result_type(array, numbers, "op"), DType::kInt8);
  EXPECT_EQ(result_type({}, numbers, "op"), DType::kInt64);
  EXPECT_THROW(result_type({}, {}, "op"), InvalidArgument);
}

TEST(Linspace, PlansExactSteps) {
  const auto plan = [](double start, double stop, std::int64_t count, bool endpoint) {
    return ops::creation::to_string(ops::creation::plan_linspace(start, stop, count, endpoint));
  };
  EXPECT_EQ(plan(0, 10, 6, true), "ramp(start=0, step=2, div=0, last=10)");
  EXPECT_EQ(plan(0, 10, 5, false), "ramp(start=0, step=2, div=0, last=10)");
  EXPECT_EQ(plan(3, 10, 1, true), "ramp(start=3, step=7, div=0, last=10)");
}

TEST(Linspace, DividesLastWhereTheStepUnderflows) {
  const double tiny = std::nextafter(0.0, 1.0);
  const kernels::RealRamp ramp = ops::creation::plan_linspace(0, tiny, 5, true);
  EXPECT_EQ(ramp.div, 4);
  EXPECT_EQ(ramp.step, tiny);
}

TEST(Triangle, UsesWideAccessesThatDoNotCrossRows) {
  const ops::creation::TrianglePlan wide =
      ops::creation::plan_triangle(4, {3, 8, 16}, 1, true, 256);
  EXPECT_EQ(wide, (ops::creation::TrianglePlan{4, 2, 4, 96})) << ops::creation::to_string(wide);
  EXPECT_EQ(ops::creation::plan_triangle(4, {8, 17}, 0, true, 256).vec, 1);
  EXPECT_EQ(ops::creation::plan_triangle(4, {8, 16}, 0, true, 4).vec, 1);
  EXPECT_EQ(ops::creation::plan_triangle(16, {8, 16}, 0, true, 16).vec, 1);
}

TEST(Triangle, ClampsTheDiagonal) {
  constexpr std::int64_t kFar = std::int64_t{1} << 62;
  EXPECT_EQ(ops::creation::plan_triangle(4, {8, 16}, kFar, true, 1).bound, 17);
  EXPECT_EQ(ops::creation::plan_triangle(4, {8, 16}, -kFar, true, 1).bound, -7);
  EXPECT_EQ(ops::creation::plan_triangle(4, {8, 16}, kFar, false, 1).bound, 16);
  EXPECT_EQ(ops::creation::plan_triangle(4, {8, 16}, -kFar, false, 1).bound, -8);
}

}  // namespace
}  // namespace gpk
