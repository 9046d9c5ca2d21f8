// Norms over rows, and over groups of channels.
#pragma once

#include <optional>

#include "core/array.h"

namespace gpk::ops {

// Weight and bias have the dtype of x, or float32.
struct NormOptions {
  std::optional<Array> weight;  // none: 1
  std::optional<Array> bias;    // none: 0
  double eps = 1e-5;
  double offset = 0.0;  // added to the weight
  // Sums in the order of gemm::InputNorm, 256 threads to a row.
  bool few_rows = false;
};

// All throw InvalidArgument. x is float16, bfloat16 or float32; sums are in float32, and the order
// of a row's sum does not depend on the other rows.

// x / sqrt(mean(x**2) + eps) * (offset + weight) over the last axis.
Array rmsnorm(const Array& x, const NormOptions& options, const std::optional<Array>& out,
              const char* op = "rmsnorm");
// (x - mean(x)) / sqrt(var(x) + eps) * weight + bias over the last axis.
Array layernorm(const Array& x, const NormOptions& options, const std::optional<Array>& out);

// The norm of x + residual, and the sum itself, rounded to its dtype.
struct NormAndSum {
  Array out;
  Array sum;
};
NormAndSum add_rmsnorm(const Array& x, const Array& residual, const NormOptions& options,
                       const std::optional<Array>& out, const std::optional<Array>& sum_out);
NormAndSum add_layernorm(const Array& x, const Array& residual, const NormOptions& options,
                         const std::optional<Array>& out, const std::optional<Array>& sum_out);

// rmsnorm as e4m3 values and a float32 scale per row: x is about values * scales[..., None].
struct QuantizedNorm {
  Array values;
  Array scales;
  std::optional<Array> sum;  // x + residual
};
QuantizedNorm rmsnorm_fp8(const Array& x, const std::optional<Array>& residual,
                          const NormOptions& options);

// x is [samples, channels, ...]; every group of neighbouring channels is normalised by itself.
Array groupnorm(const Array& x, std::int64_t num_groups, const NormOptions& options,
                const std::optional<Array>& out);
Array instancenorm(const Array& x, const NormOptions& options, const std::optional<Array>& out);
// instancenorm(x) * (1 + scale) + shift; both [samples, channels].
Array adain(const Array& x, const Array& scale, const Array& shift, double eps,
            const std::optional<Array>& out);

}  // namespace gpk::ops
