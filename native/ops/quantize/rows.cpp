#include "ops/quantize/rows.h"

#include "base/text.h"
#include "core/context.h"
#include "core/view.h"
#include "ops/cpu_backend.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/kernel_table.h"
#include "ops/submit.h"
#include "plan/key_builder.h"

namespace gpk::ops {
namespace {

std::uint64_t rows_bits(const PackedLayout& layout, DType dtype) {
  return plan::KeyBuilder()
      .field("dtype", dtype, plan::kDTypeBits)
      .field("code", layout.code(), 4)
      .field("group", layout.group, 8)
      .key();
}

jit::KernelSpec rows_spec(const PackedLayout& layout, DType dtype) {
  jit::KernelSpec spec;
  spec.file = "quantize/rows.cuh";
  spec.op = "quantize";
  spec.kernel = kQuantizeRowsKernel;
  spec.variant = rows_bits(layout, dtype);
  spec.expression = cat("gpk::quantize_rows<", layout.code(), ", ", layout.group, ", ",
                        info(dtype).cuda_name, ">");
  return spec;
}

void launch_rows(const Array& x, const PackedWeight& packed) {
  kernels::QuantizeArgs args{};
  args.w = address(x);
  args.w_row = x.strides()[0];
  args.values = address(packed.values);
  args.scales = address(*packed.scales);
  args.n = x.shape()[0];
  args.k = packed.k();
  args.values_row = packed.values.shape()[1];
  args.groups = packed.scales->shape()[1];
  args.group = static_cast<int>(packed.layout.group);
  args.scale_rows = 1;
  args.code = packed.layout.code();
  args.scale_code = packed.layout.scale_code();
  float* row_scales = address(packed.tensor_scale);
  const Kernel& code =
      kernel(Context::get(x.device().index),
             {Family::quantize, kQuantizeRowsKernel, rows_bits(packed.layout, x.dtype())},
             [&] { return rows_spec(packed.layout, x.dtype()); });
  void* params[] = {&args, &row_scales};
  submit(
      code, grid_1d(args.n, 1, kernels::kQuantizeThreads),
      {&x, &packed.values, &*packed.scales, packed.tensor_scale ? &*packed.tensor_scale : nullptr},
      params);
}

}  // namespace

PackedWeight quantize_rows(const Array& x, const PackedLayout& layout, const char* op) {
  PackedWeight packed = empty_packed(layout, x.shape(), x.dtype(), x.device(), op);
  if (packed.tensor_scale)
    packed.tensor_scale = Array::empty({x.shape()[0]}, DType::kFloat32, x.device(), op);
  const Array rows = x.strides()[1] == 1 ? x : contiguous(x, op);
  if (x.device().is_cuda()) {
    launch_rows(rows, packed);
  } else {
    run_on_cpu({"quantize_rows",
                {rows},
                {packed.values, *packed.scales},
                {{"format", std::string(name(layout.format))},
                 {"group", Scalar(layout.group)},
                 {"row_scales", cpu_optional(packed.tensor_scale)}}});
  }
  return packed;
}

void enumerate_quantize_rows(std::vector<jit::KernelSpec>& specs) {
  for (const QuantFormat format : {QuantFormat::kMxfp8, QuantFormat::kMxfp4, QuantFormat::kNvfp4})
    for (const DType dtype : {DType::kBFloat16, DType::kFloat16, DType::kFloat32})
      specs.push_back(
          rows_spec(make_layout(format, std::nullopt, false, false, "quantize"), dtype));
}

}  // namespace gpk::ops
