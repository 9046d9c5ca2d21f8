#include "ops/conv/desc.h"

#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "ops/checks.h"
#include "ops/matmul/precision.h"

namespace gpk::ops::conv {
namespace {

constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();

// Element `i` of an option that is one number or one for each dimension.
std::int64_t option(const Dims& values, int dims, int i, std::int64_t least, const char* argument,
                    const char* op) {
  if (values.size() != 1 && values.size() != dims)
    throw InvalidArgument(cat(op, ": ", argument, " is ", to_string(values),
                              ", expected an integer", dims == 1 ? "" : " or two of them"));
  const std::int64_t value = values[values.size() == 1 ? 0 : i];
  if (value < least || value > kMaxInt)
    throw InvalidArgument(cat(op, ": ", argument, " is ", to_string(values), ", expected ", least,
                              " or more, below 2**31"));
  return value;
}

std::int64_t plain_size(std::int64_t in, std::int64_t taps, std::int64_t stride, std::int64_t pad,
                        std::int64_t dilation, const char* op) {
  const std::int64_t reach = dilation * (taps - 1) + 1;
  if (in + 2 * pad < reach)
    throw InvalidArgument(cat(op, ": x has ", in, " elements along a dimension, with padding ",
                              in + 2 * pad, ", and the kernel needs ", reach));
  return (in + 2 * pad - reach) / stride + 1;
}

void check_channels(const Array& x, const Array& w, std::int64_t groups, bool transposed,
                    const char* op) {
  const std::int64_t in = x.shape()[1];
  const std::int64_t of_w = transposed ? w.shape()[0] : w.shape()[1] * groups;
  if (groups < 1 || in % groups != 0 || (!transposed && w.shape()[0] % groups != 0))
    throw InvalidArgument(cat(op, ": groups is ", groups, ", expected a divisor of the ", in,
                              " channels of x", transposed ? "" : " and of the ",
                              transposed ? std::string() : cat(w.shape()[0], " of the result")));
  if (of_w != in)
    throw InvalidArgument(cat(op, ": w has shape ", to_string(w.shape()), " for ", of_w,
                              " input channels in ", groups, " groups, x has shape ",
                              to_string(x.shape())));
}

std::int64_t transposed_size(const ConvDesc& desc, std::int64_t output_padding, const char* op) {
  if (output_padding < 0 || (output_padding >= desc.stride_w && output_padding >= desc.dilation_w))
    throw InvalidArgument(cat(op, ": output_padding is ", output_padding,
                              ", expected 0 or more, below the stride ", desc.stride_w,
                              " or the dilation ", desc.dilation_w));
  const std::int64_t size = (desc.in_w - 1) * desc.stride_w - 2 * desc.pad_w +
                            desc.dilation_w * (desc.kernel_w - 1) + output_padding + 1;
  if (size < 1)
    throw InvalidArgument(
        cat(op, ": padding ", desc.pad_w, " leaves no output for x of length ", desc.in_w));
  return size;
}

void check_sizes(const ConvDesc& desc, const char* op) {
  for (const std::int64_t size :
       {desc.in_h, desc.in_w, desc.out_h, desc.out_w, desc.batch, desc.taps(),
        desc.groups * desc.in_channels, desc.groups * desc.out_channels,
        (desc.out_w + desc.pad_w) * desc.stride_w + desc.kernel_w * desc.dilation_w,
        (desc.out_h + desc.pad_h) * desc.stride_h + desc.kernel_h * desc.dilation_h})
    if (size > kMaxInt / 2)
      throw InvalidArgument(
          cat(op, ": a dimension or offset of ", size, ", expected fewer than 2**30"));
}

}  // namespace

void check_dtype(const Array& x, const char* op) {
  const DType dtype = x.dtype();
  if (dtype != DType::kFloat16 && dtype != DType::kBFloat16 && dtype != DType::kFloat32)
    throw InvalidArgument(
        InvalidArgument::Kind::kType,
        cat(op, ": x has dtype ", name(dtype), ", expected float16, bfloat16 or float32"));
}

ConvDesc check_conv(const Array& x, const Array& w, const ConvOptions& options, int dims,
                    bool transposed, const char* op) {
  check_dtype(x, op);
  if (x.ndim() != dims + 2)
    throw InvalidArgument(cat(op, ": x has shape ", to_string(x.shape()), ", expected (batch, in, ",
                              dims == 1 ? "length)" : "h, w)"));
  if (w.ndim() != dims + 2)
    throw InvalidArgument(cat(op, ": w has shape ", to_string(w.shape()), ", expected ",
                              transposed  ? "(in, out / groups, taps)"
                              : dims == 1 ? "(out, in / groups, taps)"
                                          : "(out, in / groups, taps_h, taps_w)"));
  check_operand(w, "w", w.shape(), x, op);
  check_channels(x, w, options.groups, transposed, op);
  ConvDesc desc;
  desc.dtype = x.dtype();
  desc.transposed = transposed;
  desc.tf32 = x.dtype() == DType::kFloat32 && gemm::tf32_allowed(std::nullopt);
  desc.batch = x.shape()[0];
  desc.groups = options.groups;
  desc.in_channels = x.shape()[1] / options.groups;
  desc.out_channels = transposed ? w.shape()[1] : w.shape()[0] / options.groups;
  desc.in_w = x.shape()[dims + 1];
  desc.kernel_w = w.shape()[dims + 1];
  desc.stride_w = option(options.stride, dims, dims - 1, 1, "stride", op);
  desc.pad_w = option(options.padding, dims, dims - 1, 0, "padding", op);
  desc.dilation_w = option(options.dilation, dims, dims - 1, 1, "dilation", op);
  if (dims == 2) {
    desc.in_h = x.shape()[2];
    desc.kernel_h = w.shape()[2];
    desc.stride_h = option(options.stride, dims, 0, 1, "stride", op);
    desc.pad_h = option(options.padding, dims, 0, 0, "padding", op);
    desc.dilation_h = option(options.dilation, dims, 0, 1, "dilation", op);
  }
  if (desc.taps() == 0)
    throw InvalidArgument(
        cat(op, ": w has shape ", to_string(w.shape()), ", expected at least one tap"));
  check_sizes(desc, op);
  desc.out_h = plain_size(desc.in_h, desc.kernel_h, desc.stride_h, desc.pad_h, desc.dilation_h, op);
  desc.out_w = transposed ? transposed_size(desc, options.output_padding, op)
                          : plain_size(desc.in_w, desc.kernel_w, desc.stride_w, desc.pad_w,
                                       desc.dilation_w, op);
  check_sizes(desc, op);
  if (options.bias) check_operand(*options.bias, "bias", {desc.groups * desc.out_channels}, x, op);
  if (options.residual)
    check_operand(*options.residual, "residual", result_shape(desc, dims), x, op);
  return desc;
}

Dims result_shape(const ConvDesc& desc, int dims) {
  const std::int64_t channels = desc.groups * desc.out_channels;
  return dims == 1 ? Dims{desc.batch, channels, desc.out_w}
                   : Dims{desc.batch, channels, desc.out_h, desc.out_w};
}

}  // namespace gpk::ops::conv
