// What happens to an accumulator before it is stored in C; on the device:
// kernels/matmul/epilogue.cuh.
#pragma once

#include <cstdint>
#include <optional>

#include "core/array.h"
#include "kernels/args/matmul.h"
#include "ops/matmul/activation.h"

namespace gpk::ops::gemm {

// In this order, each step only where it is asked for:
//   v = alpha * scale_a[i] * scale_b[j] * sum
//   v = v + bias[j]
//   v = activation(v)
//   v = v + beta * residual[i, j]
// in float32 (float64 where sums are), rounded once. Scales are the operands' (gemm_call.h). A
// residual with beta 0 is not read.
struct Epilogue {
  float alpha = 1.0f;
  float beta = 1.0f;
  std::optional<Array> bias;  // n elements (1-D) of the dtype of c
  Activation activation = Activation::kNone;
  std::optional<Array> residual;  // shape and dtype of c, any strides
};

// Template argument kEpilogue of kernels, MatmulDesc::epilogue.
inline constexpr unsigned kEpilogueActivationShift = kernels::kEpilogueActivationShift;
inline constexpr unsigned kEpilogueAlpha = kernels::kEpilogueAlpha;
inline constexpr unsigned kEpilogueBias = kernels::kEpilogueBias;
inline constexpr unsigned kEpilogueResidual = kernels::kEpilogueResidual;
inline constexpr unsigned kEpilogueScales = kernels::kEpilogueScales;

constexpr Activation activation_of(unsigned flags) {
  return static_cast<Activation>(flags >> kEpilogueActivationShift);
}
std::string epilogue_text(unsigned flags);  // "bias+gelu", "none"

// Steps in elements from one i, j or batch of C to the next, after batches were joined with rows
// or columns. Part of MatmulDesc.
struct EpilogueSteps {
  std::int64_t bias = 0;
  std::int64_t scale_a = 0, scale_b = 0;
  std::int64_t residual_m = 0, residual_n = 0, residual_batch = 0;
  friend bool operator==(const EpilogueSteps&, const EpilogueSteps&) = default;
};

using kernels::EpilogueArgs;

}  // namespace gpk::ops::gemm
