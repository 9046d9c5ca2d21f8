#include "base/text.h"
#include "core/context.h"
#include "ops/conv/kernels.h"
#include "ops/conv/launch.h"
#include "ops/device_address.h"
#include "ops/kernel_table.h"
#include "ops/submit.h"
#include "plan/key_builder.h"

namespace gpk::ops::conv {
namespace {

constexpr auto kKernel = static_cast<std::uint8_t>(ConvKernel::kDirect);

std::uint64_t pack(DType dtype, bool transposed) {
  return plan::KeyBuilder()
      .field("dtype", dtype, plan::kDTypeBits)
      .field("transposed", transposed, 1)
      .key();
}

jit::KernelSpec direct_spec(DType dtype, bool transposed) {
  jit::KernelSpec spec;
  spec.file = "conv/conv_direct.cuh";
  spec.op = "conv";
  spec.kernel = kKernel;
  spec.variant = pack(dtype, transposed);
  spec.expression =
      cat("gpk::conv_direct<", info(dtype).cuda_name, ", ", transposed ? "true" : "false", ">");
  return spec;
}

}  // namespace

kernels::ConvArgs args_of(const ConvCall& call) {
  const ConvDesc& desc = call.desc;
  kernels::ConvArgs args{};
  args.x = address(call.x);
  args.w = address(call.w);
  args.bias = address(call.bias);
  args.residual = address(call.residual);
  args.out = address(call.out);
  args.x_batch = call.x.strides()[0];
  args.x_channel = call.x.strides()[1];
  args.x_row = call.x.strides()[2];
  args.out_batch = call.out.strides()[0];
  args.out_channel = call.out.strides()[1];
  args.out_row = call.out.strides()[2];
  if (call.residual) {
    args.residual_batch = call.residual->strides()[0];
    args.residual_channel = call.residual->strides()[1];
    args.residual_row = call.residual->strides()[2];
  }
  args.batch = static_cast<int>(desc.batch);
  args.groups = static_cast<int>(desc.groups);
  args.in_channels = static_cast<int>(desc.in_channels);
  args.out_channels = static_cast<int>(desc.out_channels);
  args.in_h = static_cast<int>(desc.in_h);
  args.in_w = static_cast<int>(desc.in_w);
  args.out_h = static_cast<int>(desc.out_h);
  args.out_w = static_cast<int>(desc.out_w);
  args.kernel_h = static_cast<int>(desc.kernel_h);
  args.kernel_w = static_cast<int>(desc.kernel_w);
  args.stride_h = static_cast<int>(desc.stride_h);
  args.stride_w = static_cast<int>(desc.stride_w);
  args.pad_h = static_cast<int>(desc.pad_h);
  args.pad_w = static_cast<int>(desc.pad_w);
  args.dilation_h = static_cast<int>(desc.dilation_h);
  args.dilation_w = static_cast<int>(desc.dilation_w);
  args.activation = static_cast<unsigned>(call.activation);
  return args;
}

void launch_direct(const ConvCall& call, const ConvPlan& plan) {
  const bool transposed = call.desc.transposed;
  const Kernel& code = kernel(Context::get(call.out.device().index),
                              {Family::conv, kKernel, pack(call.desc.dtype, transposed)},
                              [&] { return direct_spec(call.desc.dtype, transposed); });
  kernels::ConvArgs args = args_of(call);
  kernels::ConvDirectGrid grid = plan.direct;
  void* params[] = {&args, &grid};
  submit(code,
         grid_1d(grid.num_lines << grid.lane_bits, kernels::kConvDirectThreads,
                 kernels::kConvDirectThreads),
         {&call.x, &call.w, call.bias ? &*call.bias : nullptr,
          call.residual ? &*call.residual : nullptr, &call.out},
         params);
}

void enumerate_direct(std::vector<jit::KernelSpec>& specs) {
  for (const DType dtype : kDTypes)
    for (const bool transposed : {false, true}) specs.push_back(direct_spec(dtype, transposed));
}

}  // namespace gpk::ops::conv
