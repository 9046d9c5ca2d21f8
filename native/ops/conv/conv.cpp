#include "ops/conv/conv.h"

#include "core/view.h"
#include "jit/builtin.h"
#include "ops/conv/launch.h"
#include "ops/cpu_backend.h"
#include "ops/elementwise/copy.h"
#include "ops/matmul/matmul.h"
#include "ops/output.h"

namespace gpk::ops {
namespace {

using namespace conv;

// A sequence as an image of one row.
Array as_image(const Array& array, const char* op) {
  return array.ndim() == 4 ? array : expand_dims(array, {2}, op);
}

std::optional<gpk::ops::Activation> of_matmul(conv::Activation activation) {
  switch (activation) {
    case conv::Activation::kNone: return gpk::ops::Activation::kNone;
    case conv::Activation::kRelu: return gpk::ops::Activation::kRelu;
    case conv::Activation::kGelu: return gpk::ops::Activation::kGelu;
    case conv::Activation::kGeluErf: return gpk::ops::Activation::kGeluErf;
    case conv::Activation::kSilu: return gpk::ops::Activation::kSilu;
    default: return std::nullopt;
  }
}

// [batch, channels, ...] as matrices [batch, positions, channels]; nullopt: not without a copy.
std::optional<Array> as_matrices(const Array& array, const char* op) {
  const auto flat =
      try_reshape(array, {array.shape()[0], array.shape()[1], array.shape()[2] * array.shape()[3]});
  return flat ? std::optional(permute(*flat, {0, 2, 1}, op)) : std::nullopt;
}

// Rows of inputs [batch, positions, channels * taps] times w^T, the epilogue in the matmul; false
// where arrays or the activation do not fit.
bool run_matmul(const ConvCall& call, const std::optional<Array>& x) {
  const auto activation = of_matmul(call.activation);
  const auto out = as_matrices(call.out, call.op);
  if (!activation || !x || !out) return false;
  MatmulOptions options;
  options.out = *out;
  options.bias = call.bias;
  options.activation = *activation;
  options.batch_invariant = true;
  if (call.residual) {
    options.residual = as_matrices(*call.residual, call.op);
    if (!options.residual) return false;
  }
  const Array w = reshape(call.w, {call.w.shape()[0], -1}, call.op);
  matmul(*x, transpose(w, call.op), options, call.op);
  return true;
}

// Whether taps of unpadded inputs are worth a copy side by side: windows too large for shared
// memory, as those of patches.
bool is_unfolded(const ConvCall& call) {
  const ConvDesc& desc = call.desc;
  return of_matmul(call.activation) && !desc.transposed && desc.groups == 1 && desc.pad_h == 0 &&
         desc.pad_w == 0 && desc.in_channels * desc.taps() >= 32 && desc.out_channels >= 16;
}

// The inputs of every output: [batch, positions, channels * taps].
Array unfolded(const ConvCall& call) {
  const ConvDesc& d = call.desc;
  const Dims& strides = call.x.strides();
  const Array windows({d.batch, d.out_h, d.out_w, d.in_channels, d.kernel_h, d.kernel_w},
                      {strides[0], strides[2] * d.stride_h, strides[3] * d.stride_w, strides[1],
                       strides[2] * d.dilation_h, strides[3] * d.dilation_w},
                      d.dtype, call.x.buffer(), call.x.offset_elems());
  return reshape(contiguous(windows, call.op),
                 {d.batch, d.out_h * d.out_w, d.in_channels * d.taps()}, call.op);
}

void launch(const ConvCall& call) {
  if (is_pointwise(call.desc) && run_matmul(call, as_matrices(call.x, call.op))) return;
  const DeviceTraits& traits = device_traits(call.out.device());
  const ConvPlan plan = plan_conv(call.desc, traits, !jit::jit_available());
  if (plan.engine == ConvEngine::kMma) {
    launch_mma(call, plan);
  } else if (!is_unfolded(call) || !run_matmul(call, unfolded(call))) {
    launch_direct(call, plan);
  }
}

// Whether the kernel may write to `out` itself.
bool takes_result(const Array& out, const Array& x, const Array& w, const ConvOptions& options) {
  return out.dtype() == x.dtype() && has_rows(out) && !may_overlap(out, x) &&
         !may_overlap(out, w) && (!options.bias || !may_overlap(out, *options.bias)) &&
         (!options.residual || same_place(out, *options.residual) ||
          !may_overlap(out, *options.residual));
}

void run_reference(const Array& x, const Array& w, const ConvOptions& options, const ConvDesc& desc,
                   const Array& result, const char* op) {
  CpuCall call{op,
               {x, w, cpu_optional(options.bias), cpu_optional(options.residual)},
               {result},
               {{"stride", Dims{desc.stride_h, desc.stride_w}},
                {"padding", Dims{desc.pad_h, desc.pad_w}},
                {"dilation", Dims{desc.dilation_h, desc.dilation_w}},
                {"groups", Scalar(desc.groups)},
                {"activation", std::string(name(options.activation))}}};
  run_on_cpu(std::move(call));
}

Array run(const Array& x, const Array& w, const ConvOptions& options,
          const std::optional<Array>& out, int dims, bool transposed, const char* op) {
  const ConvDesc desc = check_conv(x, w, options, dims, transposed, op);
  const Dims shape = result_shape(desc, dims);
  if (out) check_out(*out, shape, x.dtype(), x.device(), op);
  const bool direct = out && (!x.device().is_cuda() || takes_result(*out, x, w, options));
  Array result = direct ? *out : Array::empty(shape, x.dtype(), x.device(), op);
  if (result.size() == 0) return out ? *out : result;
  if (!x.device().is_cuda()) {
    run_reference(x, w, options, desc, result, op);
    return result;
  }
  const auto image = [&](const std::optional<Array>& array) {
    return array ? std::optional(as_image(with_rows(*array, op), op)) : std::nullopt;
  };
  launch({op, desc, *image(x), contiguous(w, op),
          options.bias ? std::optional(contiguous(*options.bias, op)) : std::nullopt,
          image(options.residual), options.activation, as_image(result, op)});
  if (out && !direct) copy_into(*out, result, op);
  return out ? *out : result;
}

}  // namespace

Array conv1d(const Array& x, const Array& w, const ConvOptions& options,
             const std::optional<Array>& out) {
  return run(x, w, options, out, 1, false, "conv1d");
}

Array conv2d(const Array& x, const Array& w, const ConvOptions& options,
             const std::optional<Array>& out) {
  return run(x, w, options, out, 2, false, "conv2d");
}

Array conv_transpose1d(const Array& x, const Array& w, const ConvOptions& options,
                       const std::optional<Array>& out) {
  return run(x, w, options, out, 1, true, "conv_transpose1d");
}

}  // namespace gpk::ops
