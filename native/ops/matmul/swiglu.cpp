#include "ops/matmul/swiglu.h"

#include "base/text.h"
#include "core/context.h"
#include "core/view.h"
#include "kernels/args/matmul.h"
#include "ops/cpu_backend.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/kernel_table.h"
#include "ops/matmul/kernel_ids.h"
#include "ops/submit.h"

namespace gpk::ops::gemm {
namespace {

constexpr unsigned kThreads = 256;
constexpr DType kDTypes[] = {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};

jit::KernelSpec swiglu_spec(DType dtype) {
  jit::KernelSpec spec;
  spec.file = "matmul/swiglu.cuh";
  spec.op = "linear";
  spec.kernel = kSwigluKernel;
  spec.variant = static_cast<std::uint64_t>(dtype);
  spec.expression = cat("gpk::swiglu_kernel<", info(dtype).cuda_name, ">");
  return spec;
}

void launch_swiglu(const Array& both, const std::optional<Array>& bias,
                   const std::optional<Array>& residual, const Array& result) {
  kernels::SwigluArgs args{};
  args.both = address(both);
  args.result = address(result);
  args.rows = result.shape()[0];
  args.n = result.shape()[1];
  args.result_m = result.strides()[0];
  args.result_n = result.strides()[1];
  if (bias) {
    args.bias = address(bias);
    args.bias_step = bias->strides()[0];
  }
  if (residual) {
    args.residual = address(residual);
    args.residual_m = residual->strides()[0];
    args.residual_n = residual->strides()[1];
  }
  const DType dtype = result.dtype();
  const Kernel& k = kernel(Context::get(result.device().index),
                           {Family::matmul, kSwigluKernel, static_cast<std::uint64_t>(dtype)},
                           [&] { return swiglu_spec(dtype); });
  void* params[] = {&args};
  submit(k, grid_1d(args.rows * args.n, kThreads, kThreads),
         {&both, &result, bias ? &*bias : nullptr, residual ? &*residual : nullptr}, params);
}

}  // namespace

void run_swiglu(const Array& both, const std::optional<Array>& bias,
                const std::optional<Array>& residual, const Array& result, const char* op) {
  if (!result.device().is_cuda()) {
    CpuCall call{"swiglu", {both}, {result}};
    if (bias) call.options.emplace_back("bias", *bias);
    if (residual) call.options.emplace_back("residual", *residual);
    run_on_cpu(std::move(call));
    return;
  }
  const std::int64_t n = result.shape()[result.ndim() - 1];
  const Dims flat{result.size() / n, n};
  std::optional<Array> rows;
  if (residual) rows = reshape(*residual, flat, op);
  if (const auto view = try_reshape(result, flat)) {
    launch_swiglu(both, bias, rows, *view);
    return;
  }
  const Array copy = Array::empty(flat, result.dtype(), result.device(), op);
  launch_swiglu(both, bias, rows, copy);
  copy_into(result, reshape(copy, result.shape(), op), op);
}

void enumerate_swiglu(std::vector<jit::KernelSpec>& specs) {
  for (const DType dtype : kDTypes) specs.push_back(swiglu_spec(dtype));
}

}  // namespace gpk::ops::gemm
