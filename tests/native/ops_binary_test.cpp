// Plans, checks and the CPU path of the binary ops.
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "core/error.h"
#include "core/graph.h"
#include "ops/cpu_backend.h"
#include "ops/elementwise/binary.h"
#include "ops/elementwise/fill.h"
#include "ops/op.h"

namespace gpk::ops {
namespace {

constexpr Device kCpu{DeviceKind::kCpu, 0};

TEST(PlanBinary, WideAccessesWhenAligned) {
  EXPECT_EQ(plan_binary(DType::kFloat32, 2048, false, 16), (BinaryPlan{4, false, 1}));
  EXPECT_EQ(plan_binary(DType::kFloat32, 2049, false, 256), (BinaryPlan{4, false, 2}));
  EXPECT_EQ(plan_binary(DType::kInt8, 1, true, 16), (BinaryPlan{16, true, 1}));
  EXPECT_EQ(plan_binary(DType::kComplex128, 512, false, 16), (BinaryPlan{1, false, 1}));
}

TEST(PlanBinary, NarrowAccessesWhenMisaligned) {
  EXPECT_EQ(plan_binary(DType::kFloat32, 513, false, 4), (BinaryPlan{1, false, 2}));
  EXPECT_EQ(plan_binary(DType::kFloat16, 512, false, 8), (BinaryPlan{1, false, 1}));
}

TEST(PlanBinary, CountsBeyond32Bits) {
  const std::int64_t n = (std::int64_t{1} << 32) + 1;
  EXPECT_EQ(plan_binary(DType::kInt8, n, false, 16).num_blocks, (n + 8191) / 8192);
  EXPECT_EQ(to_string(plan_binary(DType::kInt8, 1, true, 1)),
            "binary(vec=1, scalar=true, blocks=1)");
}

TEST(KernelSpecs, EveryOpHasKernelsAndTheyDiffer) {
  std::set<std::string> expressions;
  std::set<std::string> ops;
  for (const auto& spec : all_kernel_specs()) {
    EXPECT_TRUE(expressions.insert(spec.expression).second) << spec.expression;
    ops.insert(spec.op);
  }
  for (const OpInfo& op : op_list()) EXPECT_TRUE(ops.contains(op.name)) << op.name;
}

// Adds float32 arrays; stands in for pygpukit._reference.
void cpu_add(const CpuCall& call) {
  const auto& a = std::get<Array>(call.args[0]);
  const auto* x = static_cast<const float*>(a.data());
  auto* out = static_cast<float*>(call.out.data());
  const auto* b = std::get_if<Array>(&call.args[1]);
  for (std::int64_t i = 0; i < a.size(); ++i)
    out[i] = x[i] + (b != nullptr ? static_cast<const float*>(b->data())[i] : 10.0f);
}

class BinaryOnCpu : public ::testing::Test {
 protected:
  void SetUp() override { set_cpu_backend(cpu_add); }
  void TearDown() override { set_cpu_backend(nullptr); }
  static Array ones(Dims shape, DType dtype = DType::kFloat32) {
    return full(shape, Scalar(true), dtype, kCpu, "ones");
  }
  static float first(const Array& array) {
    float value = 0.0f;
    std::memcpy(&value, array.data(), sizeof value);
    return value;
  }
};

TEST_F(BinaryOnCpu, RunsAndWritesOut) {
  const Array a = ones({3});
  EXPECT_EQ(first(add(a, a)), 2.0f);
  EXPECT_EQ(first(add(a, Scalar(10.0))), 11.0f);
  const Array out = ones({3});
  const Array result = add(a, a, out);
  EXPECT_EQ(result.data(), out.data());
  EXPECT_EQ(first(out), 2.0f);
}

TEST_F(BinaryOnCpu, CaptureRecordsInsteadOfRunning) {
  const Array a = ones({3});
  const Array out = full({3}, Scalar(std::int64_t{0}), DType::kFloat32, kCpu, "zeros");
  Graph graph(kCpu);
  graph.begin_capture();
  add(a, a, out);
  graph.end_capture();
  EXPECT_EQ(first(out), 0.0f);
  graph.replay();
  EXPECT_EQ(first(out), 2.0f);
}

template <class Call>
InvalidArgument refused(const Call& call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return InvalidArgument("");
}

TEST_F(BinaryOnCpu, RefusesBadOperands) {
  const Array a = ones({3});
  EXPECT_STREQ(refused([&] { add(a, ones({4})); }).what(),
               "add: requires arrays of same shape, got a (3,) and b (4,)");
  EXPECT_EQ(refused([&] { add(a, ones({3}, DType::kFloat64)); }).kind(),
            InvalidArgument::Kind::kType);
  EXPECT_EQ(refused([&] { add(Scalar(1.0), Scalar(2.0)); }).kind(), InvalidArgument::Kind::kType);
  EXPECT_EQ(refused([&] { add(ones({3}, DType::kInt8), Scalar(std::int64_t{300})); }).kind(),
            InvalidArgument::Kind::kValue);
  EXPECT_EQ(refused([&] { add(a, a, ones({4})); }).kind(), InvalidArgument::Kind::kValue);
  const Array strided({2}, {2}, DType::kFloat32, a.buffer(), 0);
  EXPECT_STREQ(refused([&] { add(strided, strided); }).what(), "add: a is not contiguous");
}

TEST_F(BinaryOnCpu, SaysWhenThereIsNoBackend) {
  set_cpu_backend(nullptr);
  EXPECT_THROW(add(ones({3}), ones({3})), Error);
}

}  // namespace
}  // namespace gpk::ops
