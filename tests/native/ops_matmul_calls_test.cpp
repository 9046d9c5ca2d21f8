// What the ops of the matmul family make of a call: GEMMs, and the ops beside them.
#include <gtest/gtest.h>

#include "base/error.h"
#include "core/view.h"
#include "ops/cpu_backend.h"
#include "ops/matmul/explain.h"
#include "ops/matmul/grouped.h"
#include "ops/matmul/linear.h"
#include "ops/matmul/precision.h"
#include "ops/matmul/scaled.h"

namespace gpk::ops::gemm {
namespace {

Array array(const Dims& shape, DType dtype = DType::kFloat32) {
  return Array::empty(shape, dtype, Device{});
}

class MatmulCalls : public ::testing::Test {
 protected:
  void SetUp() override {
    set_cpu_backend([this](const CpuCall& call) { calls_.push_back(call); });
  }
  void TearDown() override { set_cpu_backend(nullptr); }

  template <class Call>
  std::vector<GemmCall> products(const Call& call) {
    std::vector<GemmCall> found;
    const GemmRecorder recorder(found);
    call();
    return found;
  }
  std::vector<CpuCall> calls_;
};

TEST_F(MatmulCalls, LinearTakesWeightsAsTheyLie) {
  const Array x = array({2, 5, 3}, DType::kBFloat16);
  const Array w = array({4, 3}, DType::kBFloat16);
  LinearOptions options;
  options.bias = array({4}, DType::kBFloat16);
  options.activation = Activation::kGelu;
  const auto found = products([&] { linear(x, w, options); });
  ASSERT_EQ(found.size(), 1u);
  const GemmCall& p = found[0];
  EXPECT_EQ(p.b.buffer(), w.buffer());
  EXPECT_EQ(p.b.shape(), (Dims{2, 3, 4}));
  EXPECT_EQ(p.b.strides(), (Dims{0, 1, 3}));
  EXPECT_EQ(p.c.shape(), (Dims{2, 5, 4}));
  EXPECT_EQ(p.epilogue.activation, Activation::kGelu);
  EXPECT_TRUE(p.epilogue.bias.has_value());
  EXPECT_TRUE(calls_.empty());  // nothing besides the GEMM
}

TEST_F(MatmulCalls, AResidualMayBeTheResult) {
  const Array x = array({5, 3});
  const Array residual = array({5, 4});
  LinearOptions options;
  options.residual = residual;
  options.out = residual;
  const auto found = products([&] { linear(x, array({4, 3}), options); });
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].c.buffer(), residual.buffer());
  EXPECT_EQ(found[0].epilogue.residual->buffer(), residual.buffer());
  EXPECT_TRUE(calls_.empty());

  options.out = broadcast_to(residual, {5, 4}, "test");
  options.residual = slice_axis(residual, 0, 4, 5, -1);  // the same memory, another place
  const auto apart = products([&] { linear(x, array({4, 3}), options); });
  EXPECT_NE(apart[0].c.buffer(), residual.buffer());
}

TEST_F(MatmulCalls, SwigluIsOneProductOfSums) {
  const Array x = array({5, 3}, DType::kFloat16);
  LinearOptions options;
  options.swiglu = true;
  const auto found = products([&] { linear(x, array({8, 3}, DType::kFloat16), options); });
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].c.shape(), (Dims{5, 8}));
  EXPECT_EQ(found[0].c.dtype(), DType::kFloat32);
  EXPECT_EQ(found[0].a.dtype(), DType::kFloat16);
}

TEST_F(MatmulCalls, SumsKeepTheirDtypeWithoutCasts) {
  const auto one = [&](DType operand, DType dtype) {
    MatmulOptions options;
    options.dtype = dtype;
    return products([&] { matmul(array({2, 3}, operand), array({3, 4}, operand), options); })[0];
  };
  EXPECT_EQ(one(DType::kInt8, DType::kInt32).a.dtype(), DType::kInt8);
  EXPECT_EQ(one(DType::kInt8, DType::kInt32).c.dtype(), DType::kInt32);
  EXPECT_EQ(one(DType::kBFloat16, DType::kFloat32).a.dtype(), DType::kBFloat16);
  EXPECT_EQ(one(DType::kBFloat16, DType::kFloat64).a.dtype(), DType::kFloat64);
  EXPECT_EQ(one(DType::kUInt8, DType::kInt32).a.dtype(), DType::kInt32);
}

TEST_F(MatmulCalls, Float64FactorsThatFloat32LacksAreAppliedSeparately) {
  const Array x = array({2, 2}, DType::kFloat64);
  MatmulOptions options;
  options.alpha = 0.5;
  EXPECT_EQ(products([&] { matmul(x, x, options); })[0].epilogue.alpha, 0.5f);
  EXPECT_TRUE(calls_.empty());
  options.alpha = 0.1;
  EXPECT_EQ(products([&] { matmul(x, x, options); })[0].epilogue.alpha, 1.0f);
  ASSERT_FALSE(calls_.empty());
  EXPECT_STREQ(calls_[0].op, "multiply");
}

TEST_F(MatmulCalls, Tf32OnlyWhereAllowed) {
  const Array x = array({2, 2});
  const auto tf32 = [&](std::optional<bool> use) {
    return products([&] { matmul(x, x, std::nullopt, use); })[0].tf32;
  };
  EXPECT_FALSE(tf32(std::nullopt));
  EXPECT_TRUE(tf32(true));
  set_matmul_precision(MatmulPrecision::kTf32);
  EXPECT_TRUE(tf32(std::nullopt));
  EXPECT_FALSE(tf32(false));
  const Array wide = array({2, 2}, DType::kFloat64);
  EXPECT_FALSE(products([&] { matmul(wide, wide); })[0].tf32);
  set_matmul_precision(MatmulPrecision::kFloat32);
}

TEST_F(MatmulCalls, NumbersAsScalesAreAlpha) {
  const Array a = array({2, 16}, DType::kFloat8E4M3FN);
  const Array b = array({16, 8}, DType::kFloat8E5M2);
  const auto numbers = products([&] { scaled_matmul(a, b, 0.5, 0.25); });
  ASSERT_EQ(numbers.size(), 1u);
  EXPECT_EQ(numbers[0].epilogue.alpha, 0.125f);
  EXPECT_FALSE(numbers[0].quant_a.scales || numbers[0].quant_b.scales);
  const auto arrays = products([&] { scaled_matmul(a, b, array({2, 1}), array({1, 8})); });
  EXPECT_EQ(arrays[0].quant_a.scales->shape(), (Dims{2}));
  EXPECT_EQ(arrays[0].quant_b.scales->shape(), (Dims{8}));
  EXPECT_THROW(scaled_matmul(a, b, array({8}), 1.0), InvalidArgument);
}

TEST_F(MatmulCalls, HostSizesAreOneProductPerGroup) {
  const Array x = array({10, 3});
  const Array w = array({4, 5, 3});
  const std::int64_t sizes[] = {3, 0, 6, 1};
  const auto found = products([&] { grouped_gemm(x, w, sizes); });
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[1].a.shape(), (Dims{6, 3}));
  EXPECT_EQ(found[1].a.offset_elems(), 9);
  EXPECT_EQ(found[1].b.offset_elems(), 30);
  EXPECT_EQ(found[1].b.strides(), (Dims{1, 3}));
  EXPECT_EQ(found[2].c.offset_elems(), 45);
  const std::int64_t few[] = {3, 0, 6, 0};
  EXPECT_THROW(grouped_gemm(x, w, few), InvalidArgument);
}

}  // namespace
}  // namespace gpk::ops::gemm
