#include "ops/matmul/typical.h"

#include <algorithm>

namespace gpk::ops::gemm {
namespace {

// Contiguous operands: A [m, k], and B [k, n] or, as weights are kept, [n, k].
MatmulDesc contiguous(DType dtype, std::int64_t m, std::int64_t n, std::int64_t k, bool b_k_major,
                      bool tf32) {
  MatmulDesc desc;
  desc.a.dtype = desc.b.dtype = dtype;
  desc.dtype_acc = accumulator(dtype);
  desc.dtype_c = dtype == DType::kInt8 ? DType::kInt32 : dtype;
  desc.tf32 = tf32;
  MatmulProblem& p = desc.problem;
  p.m = m;
  p.n = n;
  p.k = k;
  p.a_m = k;
  p.a_k = 1;
  p.b_k = b_k_major ? 1 : n;
  p.b_n = b_k_major ? k : 1;
  p.c_m = n;
  p.c_n = 1;
  return desc;
}

// Rows for each of `experts` matrices [n, k], as many as the device says.
MatmulDesc grouped(std::int64_t rows, std::int64_t experts, std::int64_t n, std::int64_t k,
                   bool b_k_major) {
  MatmulDesc desc = contiguous(DType::kBFloat16, rows, n, k, b_k_major, false);
  desc.groups = {GroupKind::kSizes, true, experts, n * k};
  return desc;
}

std::vector<MatmulDesc> typical_gemms() {
  std::vector<MatmulDesc> all;
  const auto squares = [&](DType dtype, bool tf32, std::initializer_list<std::int64_t> sizes) {
    for (const std::int64_t n : sizes)
      for (const bool b_k_major : {false, true})
        all.push_back(contiguous(dtype, n, n, n, b_k_major, tf32));
  };
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16, DType::kFloat32})
    all.push_back(contiguous(dtype, 4096, 4096, 4096, false, false));
  all.push_back(contiguous(DType::kInt8, 512, 512, 512, false, false));
  all.push_back(contiguous(DType::kBFloat16, 1, 4096, 4096, false, false));
  squares(DType::kBFloat16, false, {4096, 512, 1024, 2048, 8192});
  squares(DType::kFloat16, false, {4096, 1024});
  squares(DType::kFloat32, false, {4096, 512, 1024, 2048, 8192});
  squares(DType::kInt8, false, {4096, 512});
  squares(DType::kFloat32, true, {4096});
  struct Layer {
    std::int64_t n, k;
  };
  constexpr Layer kLayers[] = {{4096, 4096}, {14336, 4096}, {4096, 14336}, {2048, 2048}};
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16, DType::kFloat32})
    for (const std::int64_t m : {1, 8, 32, 128, 512, 2048}) {
      if (dtype != DType::kBFloat16 && m > 1) continue;
      for (const Layer layer : kLayers) {
        all.push_back(contiguous(dtype, m, layer.n, layer.k, true, false));
        if (m == 1) all.push_back(contiguous(dtype, m, layer.n, layer.k, false, false));
      }
    }
  // Mixtures of experts: a few rows for each, and many.
  for (const std::int64_t rows : {256, 4096, 32768}) {
    all.push_back(grouped(rows, 8, 14336, 4096, true));
    all.push_back(grouped(rows, 128, 1536, 2048, true));
  }
  all.push_back(grouped(4096, 8, 14336, 4096, false));
  return all;
}

}  // namespace

std::vector<jit::KernelSpec> typical_kernels(const plan::Machine& machine) {
  GemmMachine with_all{machine, false, MatmulPolicy::kNative};
  with_all.jit = true;
  std::vector<jit::KernelSpec> specs;
  for (const MatmulDesc& desc : typical_gemms()) {
    jit::KernelSpec spec = plan_spec(desc, plan_matmul(desc, with_all));
    const auto same = [&](const jit::KernelSpec& x) { return x.expression == spec.expression; };
    if (spec.file != nullptr && std::none_of(specs.begin(), specs.end(), same))
      specs.push_back(std::move(spec));
  }
  return specs;
}

}  // namespace gpk::ops::gemm
