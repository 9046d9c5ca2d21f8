// Convolutions of sequences [batch, channels, length] and images [batch, channels, h, w].
#pragma once

#include <optional>

#include "core/array.h"
#include "ops/conv/activation.h"

namespace gpk::ops {

struct ConvOptions {
  std::optional<Array> bias;      // [out channels]
  std::optional<Array> residual;  // the result's shape; added after the activation
  Dims stride{1};                 // one number, or one for each dimension
  Dims padding{0};
  Dims dilation{1};
  std::int64_t groups = 1;
  conv::Activation activation = conv::Activation::kNone;
  std::int64_t output_padding = 0;  // conv_transpose1d: elements more at the end
};

// All throw InvalidArgument. Arrays have one dtype: float16, bfloat16 or float32. Sums are in
// float32; float32 is rounded to TF32 only where matmul's is (ops/matmul/precision.h).

// w is [out, in / groups, taps].
Array conv1d(const Array& x, const Array& w, const ConvOptions& options,
             const std::optional<Array>& out);
// w is [out, in / groups, taps_h, taps_w].
Array conv2d(const Array& x, const Array& w, const ConvOptions& options,
             const std::optional<Array>& out);
// w is [in, out / groups, taps].
Array conv_transpose1d(const Array& x, const Array& w, const ConvOptions& options,
                       const std::optional<Array>& out);

struct CausalConv {
  Array out;
  Array state;
};
// Depthwise: out[t] depends on x[t - taps + 1 .. t], continued by state [batch, channels, taps - 1]
// before the first input. w is [channels, taps]. `state_out` may be `state`.
CausalConv causal_conv1d(const Array& x, const Array& w, const std::optional<Array>& bias,
                         const std::optional<Array>& state, conv::Activation activation,
                         const std::optional<Array>& out, const std::optional<Array>& state_out);

}  // namespace gpk::ops
