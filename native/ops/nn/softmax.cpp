#include "ops/nn/softmax.h"

#include <cmath>

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/text.h"
#include "core/context.h"
#include "core/view.h"
#include "kernels/args/nn.h"
#include "ops/checks.h"
#include "ops/cpu_backend.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/kernel_table.h"
#include "ops/nn/kernels.h"
#include "ops/nn/rows.h"
#include "ops/output.h"
#include "ops/submit.h"
#include "plan/key_builder.h"

namespace gpk::ops {
namespace {

using namespace nn;

struct SoftmaxVariant {
  NnKernel kernel;
  DType dtype;
  bool log;
  bool masked;
  int vec = 1;
  int accesses = 0;
};

std::uint64_t pack(const SoftmaxVariant& v) {
  return plan::KeyBuilder()
      .field("dtype", v.dtype, plan::kDTypeBits)
      .field("log", v.log, 1)
      .field("masked", v.masked, 1)
      .field("vec", v.vec, 4)
      .field("accesses", v.accesses, 4)
      .key();
}

bool is_bundled(const SoftmaxVariant& v) { return v.accesses == (v.vec == 1 ? 0 : 4); }

jit::KernelSpec softmax_spec(const SoftmaxVariant& v) {
  const auto text = [](bool flag) { return flag ? "true" : "false"; };
  jit::KernelSpec spec;
  spec.file = "nn/softmax.cuh";
  spec.op = v.log ? "log_softmax" : "softmax";
  spec.kernel = static_cast<std::uint8_t>(v.kernel);
  spec.variant = pack(v);
  spec.bundled = is_bundled(v);
  spec.expression =
      cat("gpk::", v.kernel == NnKernel::kSoftmaxRows ? "softmax_rows" : "softmax_columns", "<",
          info(v.dtype).cuda_name, ", ", text(v.log), ", ", text(v.masked));
  if (v.kernel == NnKernel::kSoftmaxRows) spec.expression += cat(", ", v.vec, ", ", v.accesses);
  spec.expression += '>';
  return spec;
}

const Kernel& code_of(const Array& x, const SoftmaxVariant& variant) {
  return kernel(Context::get(x.device().index),
                {Family::nn, static_cast<std::uint8_t>(variant.kernel), pack(variant)},
                [&] { return softmax_spec(variant); });
}

// x as [outer, width, inner].
struct Split {
  std::int64_t outer = 1;
  std::int64_t width = 1;
  std::int64_t inner = 1;
};

Split split_at(const Dims& shape, int axis) {
  Split split;
  for (int i = 0; i < shape.size(); ++i)
    (i < axis ? split.outer : i == axis ? split.width : split.inner) *= shape[i];
  return split;
}

// The mask's strides for the axes of x but `axis`; a copy of the mask where they are too many.
kernels::SoftmaxMaskLayout mask_layout(Array& mask, const Dims& shape, int axis, const char* op) {
  for (const bool copied : {false, true}) {
    if (copied) mask = contiguous(mask, op);
    kernels::SoftmaxMaskLayout layout;
    layout.step = mask.strides()[axis];
    bool fits = true;
    for (int i = 0; i < shape.size(); ++i) {
      if (i == axis || shape[i] == 1) continue;
      const int last = layout.num_dims - 1;
      if (last >= 0 && layout.stride[last] == mask.strides()[i] * shape[i]) {
        layout.size[last] *= shape[i];
        layout.stride[last] = mask.strides()[i];
        continue;
      }
      fits = layout.num_dims < kernels::SoftmaxMaskLayout::kMaxDims;
      if (!fits) break;
      layout.size[layout.num_dims] = shape[i];
      layout.stride[layout.num_dims++] = mask.strides()[i];
    }
    if (fits) return layout;
  }
  throw Error(cat(op, ": the mask has too many dimensions"));  // contiguous ones have two at most
}

void launch_softmax(const Array& given, const SoftmaxOptions& options, int axis, const Array& out,
                    const char* op) {
  const bool rows = axis == given.ndim() - 1;
  std::optional<Array> mask = options.mask;
  kernels::SoftmaxArgs args{};
  if (mask) {
    args.mask_layout = mask_layout(*mask, given.shape(), axis, op);
    args.mask = address(*mask);
  }
  args.scale = static_cast<float>(options.scale);
  const Array x = rows ? rows_of(given, op).array : contiguous(given, op);
  const Array* mask_pointer = mask ? &*mask : nullptr;
  args.x = address(x);
  args.out = address(out);
  void* params[] = {&args};
  SoftmaxVariant variant{NnKernel::kSoftmaxColumns, x.dtype(), options.log, mask.has_value()};
  if (!rows) {
    const Split split = split_at(x.shape(), axis);
    args.rows = split.outer * split.inner;
    args.inner = split.inner;
    args.width = static_cast<int>(split.width);
    LaunchConfig config;
    config.grid[0] = static_cast<unsigned>(ceil_div(args.rows, 32));
    config.block[0] = 256;
    submit(code_of(x, variant), config, {&x, mask_pointer, &out}, params);
    return;
  }
  const Rows in = *try_rows(x);
  const Rows to = *try_rows(out);
  const DeviceTraits& traits = Context::get(x.device().index).traits();
  RowPlan plan = fit_rows(plan_rows(in.width, itemsize(x.dtype()), is_aligned({&in, &to})), 1,
                          traits.shared_per_block_optin_bytes);
  if (mask && plan.accesses == 8)  // no room for the mask in registers
    plan = {plan.vec, 0, kernels::kMaxRowGroup};
  variant.kernel = NnKernel::kSoftmaxRows;
  variant.vec = plan.vec;
  variant.accesses = plan.accesses;
  if (!is_bundled(variant) && !jit::jit_available()) {
    plan = general_plan(in.width);
    variant.vec = plan.vec;
    variant.accesses = plan.accesses;
  }
  args.x_row = in.stride;
  args.out_row = to.stride;
  args.rows = in.rows;
  args.width = static_cast<int>(in.width);
  args.group = plan.group;
  submit(code_of(x, variant), row_grid(in.rows, plan, traits.multiprocessor_count),
         {&x, mask_pointer, &out}, params);
}

SoftmaxOptions check_softmax(const Array& x, SoftmaxOptions options, int axis, const char* op) {
  check_float(x, "x", op);
  if (x.shape()[axis] > kMaxRowWidth)
    throw InvalidArgument(cat(op, ": x has shape ", to_string(x.shape()),
                              ", expected at most 2**31 - 2**16 elements along the axis"));
  if (!std::isfinite(options.scale))
    throw InvalidArgument(cat(op, ": scale is ", options.scale, ", expected a finite number"));
  if (!options.mask) return options;
  if (options.mask->dtype() != DType::kBool)
    throw InvalidArgument(
        InvalidArgument::Kind::kType,
        cat(op, ": mask has dtype ", name(options.mask->dtype()), ", expected bool"));
  check_device(*options.mask, "mask", x.device(), "x", op);
  const Dims& mask = options.mask->shape();
  bool fits = mask.size() <= x.ndim();
  for (int i = 1; fits && i <= mask.size(); ++i)
    fits = mask[mask.size() - i] == 1 || mask[mask.size() - i] == x.shape()[x.ndim() - i];
  if (!fits)
    throw InvalidArgument(cat(op, ": mask has shape ", to_string(mask),
                              ", expected one that broadcasts to x's ", to_string(x.shape())));
  options.mask = broadcast_to(*options.mask, x.shape(), op);
  return options;
}

}  // namespace

Array softmax(const Array& x, const SoftmaxOptions& given, const std::optional<Array>& out) {
  const char* op = given.log ? "log_softmax" : "softmax";
  if (x.ndim() == 0)
    throw InvalidArgument(cat(op, ": x has shape (), expected at least 1 dimension"));
  const int axis = normalize_axis(given.axis, x.ndim(), op);
  const SoftmaxOptions options = check_softmax(x, given, axis, op);
  if (out) check_out(*out, x.shape(), x.dtype(), x.device(), op);
  if (x.size() == 0) return out ? *out : Array::empty(x.shape(), x.dtype(), x.device(), op);
  if (!x.device().is_cuda()) {
    const Array result = out ? *out : Array::empty(x.shape(), x.dtype(), x.device(), op);
    run_on_cpu(
        {op,
         {x, cpu_optional(options.mask)},
         {result},
         {{"axis", Scalar(static_cast<std::int64_t>(axis))}, {"scale", Scalar(options.scale)}}});
    return result;
  }
  const bool rows = axis == x.ndim() - 1;
  const Array* mask = options.mask ? &*options.mask : nullptr;
  const bool direct = out && (rows ? takes_rows(*out, x.dtype(), {&x}) &&
                                         (mask == nullptr || !may_overlap(*out, *mask))
                                   : out->dtype() == x.dtype() && out->is_contiguous() &&
                                         (same_place(*out, x) || !may_overlap(*out, x)) &&
                                         (mask == nullptr || !may_overlap(*out, *mask)));
  const Array result = direct ? *out : Array::empty(x.shape(), x.dtype(), x.device(), op);
  launch_softmax(x, options, axis, result, op);
  if (out && !direct) copy_into(*out, result, op);
  return out ? *out : result;
}

void nn::enumerate_softmax(std::vector<jit::KernelSpec>& specs) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32})
    for (const bool log : {false, true})
      for (const bool masked : {false, true}) {
        for (const int vec : {1, static_cast<int>(16 / itemsize(dtype))})
          for (const int accesses : {4, 8, 0})
            if (accesses < 8 || (vec > 1 && !masked))
              specs.push_back(
                  softmax_spec({NnKernel::kSoftmaxRows, dtype, log, masked, vec, accesses}));
        specs.push_back(softmax_spec({NnKernel::kSoftmaxColumns, dtype, log, masked}));
      }
}

}  // namespace gpk::ops
