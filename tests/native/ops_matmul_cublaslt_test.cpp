// The search for cuBLASLt, and GEMMs through a fake library.
#include <cstring>
#include <filesystem>
#include <numeric>

#include "base/error.h"
#include "core/library.h"
#include "core/view.h"
#include "device/host_copy.h"
#include "fake_driver/core_fixture.h"
#include "jit/nvrtc.h"
#include "ops/matmul/cublaslt.h"
#include "ops/matmul/decision.h"
#include "ops/matmul/engine_cublaslt.h"
#include "ops/matmul/plan_cache.h"
#include "temp_folder.h"

#ifndef _WIN32

namespace gpk::ops::gemm {
namespace {

namespace fs = std::filesystem;

int call_fake(const char* name) {
  std::string why;
  const SharedLibrary library = SharedLibrary::open(GPK_FAKE_CUBLASLT_PATH, &why);
  return reinterpret_cast<int (*)()>(library.symbol(name))();
}

void refuse(bool yes) {
  std::string why;
  const SharedLibrary library = SharedLibrary::open(GPK_FAKE_CUBLASLT_PATH, &why);
  reinterpret_cast<void (*)(int)>(library.symbol("gpk_fake_lt_refuse"))(yes ? 1 : 0);
}

class CublasLtTest : public CoreTest {
 protected:
  CublasLtTest() {
    set_env("PYGPUKIT_CACHE_DISABLE", "1");
    use(GPK_FAKE_CUBLASLT_PATH);
  }
  ~CublasLtTest() override {
    set_env("PYGPUKIT_CUBLASLT_PATH", nullptr);
    set_cublaslt_for_testing(nullptr);
    GemmPlans::forget();
  }

  void use(const std::string& path) {
    set_env("PYGPUKIT_CUBLASLT_PATH", path.empty() ? nullptr : path.c_str());
    set_cublaslt_for_testing(nullptr);
    GemmPlans::forget();
  }
  void use_policy(const char* policy) {
    set_env("PYGPUKIT_MATMUL", policy);
    GemmPlans::forget();
  }
};

TEST_F(CublasLtTest, FoundByFileAndByFolder) {
  ASSERT_NE(find_cublaslt().library, nullptr);
  EXPECT_EQ(find_cublaslt().library->version, 120900u);
  EXPECT_TRUE(fs::equivalent(find_cublaslt().library->path, GPK_FAKE_CUBLASLT_PATH));
  use(fs::path(GPK_FAKE_CUBLASLT_PATH).parent_path().string());
  ASSERT_NE(find_cublaslt().library, nullptr) << find_cublaslt().tried.front();
}

TEST_F(CublasLtTest, FoundInPipsPackages) {
  const TempFolder temp("cublaslt_roots");
  const fs::path& root = temp.path();
  fs::create_directories(root / "nvidia/cublas/lib");
  fs::create_symlink(GPK_FAKE_CUBLASLT_PATH, root / "nvidia/cublas/lib/libcublasLt.so.12");
  jit::set_package_roots([root] { return std::vector<std::string>{root.string()}; });
  use("");
  EXPECT_NE(find_cublaslt().library, nullptr);
  jit::set_package_roots({});
}

TEST_F(CublasLtTest, WrongPathHidesItAndSaysSo) {
  use("/no/such/libcublasLt.so.13");
  EXPECT_EQ(find_cublaslt().library, nullptr);
  ASSERT_EQ(find_cublaslt().tried.size(), 1u);
  EXPECT_CONTAINS(find_cublaslt().tried[0], "/no/such/libcublasLt.so.13: ");
  use(GPK_FAKE_CUDA_PATH);  // a library, but another one
  EXPECT_EQ(find_cublaslt().library, nullptr);
  EXPECT_CONTAINS(find_cublaslt().tried[0], "has no cublasLtCreate");
}

// Arrays of small whole numbers, so that all sums are exact.
Array numbers(const Dims& shape, DType dtype = DType::kFloat32) {
  const auto count = static_cast<std::size_t>(num_elements(shape, "test"));
  std::vector<float> floats(count);
  for (std::size_t i = 0; i < count; ++i) floats[i] = static_cast<float>(i * 7 % 11) - 5.0f;
  if (dtype == DType::kFloat32) return device::from_host(floats.data(), shape, dtype, kGpu);
  const std::vector<double> doubles(floats.begin(), floats.end());
  return device::from_host(doubles.data(), shape, dtype, kGpu);
}

Array swapped(const Array& x) {
  Dims order = Dims::filled(x.ndim(), 0);
  for (int d = 0; d < x.ndim(); ++d) order[d] = d;
  std::swap(order[x.ndim() - 2], order[x.ndim() - 1]);
  return permute(x, order, "test");
}

double element(const Array& x, std::int64_t batch, std::int64_t i, std::int64_t j) {
  const int rank = x.ndim();
  std::int64_t at = i * x.strides()[rank - 2] + j * x.strides()[rank - 1];
  if (rank > 2) at += batch * x.strides()[0];
  return x.dtype() == DType::kFloat64
             ? static_cast<const double*>(x.data())[at]
             : static_cast<double>(static_cast<const float*>(x.data())[at]);
}

// The fake GPU's memory can be read as it is.
void expect_product(const GemmCall& p) {
  const int rank = p.c.ndim();
  const float* bias =
      p.epilogue.bias ? static_cast<const float*>(p.epilogue.bias->data()) : nullptr;
  for (std::int64_t batch = 0; batch < (rank > 2 ? p.c.shape()[0] : 1); ++batch)
    for (std::int64_t i = 0; i < p.c.shape()[rank - 2]; ++i)
      for (std::int64_t j = 0; j < p.c.shape()[rank - 1]; ++j) {
        double sum = 0.0;
        for (std::int64_t l = 0; l < p.a.shape()[rank - 1]; ++l)
          sum += element(p.a, batch, i, l) * element(p.b, batch, l, j);
        sum *= static_cast<double>(p.epilogue.alpha);
        if (bias != nullptr) sum += static_cast<double>(bias[j]);
        if (p.epilogue.activation == Activation::kRelu) sum = std::max(sum, 0.0);
        ASSERT_EQ(element(p.c, batch, i, j), sum) << batch << " " << i << " " << j;
      }
}

void run_and_check(const GemmCall& p) {
  const int before = call_fake("gpk_fake_lt_products");
  run_gemm(p, "matmul");
  EXPECT_EQ(call_fake("gpk_fake_lt_products"), before + 1);
  expect_product(p);
}

TEST_F(CublasLtTest, AllLayouts) {
  use_policy("cublaslt");
  for (const bool a_swapped : {false, true})
    for (const bool b_swapped : {false, true})
      for (const bool c_swapped : {false, true}) {
        const Array a = a_swapped ? swapped(numbers({5, 6})) : numbers({6, 5});
        const Array b = b_swapped ? swapped(numbers({7, 5})) : numbers({5, 7});
        const Array c = c_swapped ? swapped(numbers({7, 6})) : numbers({6, 7});
        run_and_check({.a = a, .b = b, .c = c});
      }
}

TEST_F(CublasLtTest, VectorsBatchesAndDouble) {
  use_policy("cublaslt");
  run_and_check({.a = numbers({1, 9}), .b = numbers({9, 4}), .c = numbers({1, 4})});
  run_and_check({.a = numbers({4, 9}), .b = numbers({9, 1}), .c = numbers({4, 1})});
  run_and_check({.a = numbers({3, 4, 5}), .b = numbers({3, 5, 6}), .c = numbers({3, 4, 6})});
  run_and_check({.a = numbers({3, 4, 5}),
                 .b = broadcast_to(numbers({5, 6}), {3, 5, 6}, "test"),
                 .c = numbers({3, 4, 6})});
  run_and_check({.a = broadcast_to(numbers({4, 5}), {3, 4, 5}, "test"),
                 .b = numbers({3, 5, 6}),
                 .c = numbers({3, 4, 6})});
  run_and_check({.a = numbers({8, 5}, DType::kFloat64),
                 .b = numbers({5, 6}, DType::kFloat64),
                 .c = numbers({8, 6}, DType::kFloat64)});
}

TEST_F(CublasLtTest, EpilogueWhereItIsTheSame) {
  use_policy("cublaslt");
  GemmCall p{.a = numbers({6, 5}), .b = numbers({5, 8}), .c = numbers({6, 8})};
  p.epilogue.alpha = 2.0f;
  run_and_check(p);
  p.epilogue.bias = numbers({8});
  run_and_check(p);
  p.epilogue.activation = Activation::kRelu;
  run_and_check(p);
  p.epilogue.bias = numbers({8});  // another address, the same descriptors
  const int before = call_fake("gpk_fake_lt_heuristics");
  run_and_check(p);
  EXPECT_EQ(call_fake("gpk_fake_lt_heuristics"), before);
}

TEST_F(CublasLtTest, WhatItIsNotAskedFor) {
  GemmCall p{.a = numbers({6, 5}), .b = numbers({5, 8}), .c = numbers({6, 8})};
  EXPECT_TRUE(cublaslt_can(make_desc(p), 90));
  p.epilogue.activation = Activation::kSilu;
  EXPECT_FALSE(cublaslt_can(make_desc(p), 90));
  p.epilogue = {};
  p.epilogue.residual = numbers({6, 8});  // after the activation, not before
  EXPECT_FALSE(cublaslt_can(make_desc(p), 90));
  p.epilogue = {};
  p.epilogue.bias = numbers({8});
  p.c = swapped(numbers({8, 6}));  // theirs would be along m
  EXPECT_FALSE(cublaslt_can(make_desc(p), 90));
  p.epilogue = {};
  p.batch_invariant = true;
  EXPECT_FALSE(cublaslt_can(make_desc(p), 90));
  p.batch_invariant = false;
  p.a = Array({6, 5}, {10, 2}, DType::kFloat32, numbers({60}).buffer(), 0);
  EXPECT_FALSE(cublaslt_can(make_desc(p), 90));
}

GemmCall fp8_product(std::int64_t m, std::int64_t n, std::int64_t k) {
  const auto empty = [](const Dims& shape, DType dtype) {
    return Array::empty(shape, dtype, kGpu);
  };
  return {.a = empty({m, k}, DType::kFloat8E4M3FN),
          .b = swapped(empty({n, k}, DType::kFloat8E4M3FN)),
          .c = empty({m, n}, DType::kBFloat16)};
}

TEST_F(CublasLtTest, Fp8AlongKInGroupsOfSixteen) {
  EXPECT_TRUE(cublaslt_can(make_desc(fp8_product(64, 32, 48)), 90));
  EXPECT_FALSE(cublaslt_can(make_desc(fp8_product(64, 32, 48)), 80));
  EXPECT_FALSE(cublaslt_can(make_desc(fp8_product(64, 32, 40)), 90));
  GemmCall p = fp8_product(64, 32, 48);
  p.quant_a = {.layout = plan::ScaleLayout::kTensor, .scales = numbers({1})};
  EXPECT_TRUE(cublaslt_can(make_desc(p), 90));
  p.quant_a = {.layout = plan::ScaleLayout::kRow, .scales = numbers({64})};
  EXPECT_FALSE(cublaslt_can(make_desc(p), 90));
}

TEST_F(CublasLtTest, RefusalsAreRemembered) {
  expect_leftovers();  // a kernel of ours, kept for good
  use_policy("cublaslt");
  const GemmCall p{.a = numbers({13, 5}), .b = numbers({5, 8}), .c = numbers({13, 8})};
  refuse(true);
  try {
    run_gemm(p, "matmul");  // by our own kernel, where NVRTC or a bundle is available
  } catch (const Error&) {
  }
  refuse(false);
  MatmulPlan plan;
  EXPECT_FALSE(cublaslt_refused(make_desc(p), plan));
  plan.engine = MatmulEngine::cublaslt;
  plan.fused = true;
  EXPECT_TRUE(cublaslt_refused(make_desc(p), plan));
  EXPECT_NE(decide_plan(make_desc(p), gemm_machine_of(Context::get(0))).plan.engine,
            MatmulEngine::cublaslt);
}

TEST_F(CublasLtTest, AutoTakesItOnlyInsteadOfLongGeneralProducts) {
  const auto engine = [](std::int64_t n, DType dtype) {
    const auto empty = [dtype](const Dims& shape) { return Array::empty(shape, dtype, kGpu); };
    const GemmCall p{.a = empty({n, n}), .b = empty({n, n}), .c = empty({n, n})};
    return decide_plan(make_desc(p), gemm_machine_of(Context::get(0))).plan.engine;
  };
  EXPECT_EQ(engine(32, DType::kFloat64), MatmulEngine::general);
  EXPECT_EQ(engine(2048, DType::kFloat64), MatmulEngine::cublaslt);
  EXPECT_EQ(engine(2048, DType::kInt64), MatmulEngine::general);
  use_policy("native");
  EXPECT_EQ(engine(2048, DType::kFloat64), MatmulEngine::general);
  use_policy("cublaslt");
  EXPECT_EQ(engine(32, DType::kFloat64), MatmulEngine::cublaslt);
  use("/no/such/file");
  EXPECT_EQ(engine(2048, DType::kFloat64), MatmulEngine::general);
}

}  // namespace
}  // namespace gpk::ops::gemm

#endif
