// What happens to an accumulator before it is stored in C; on the device:
// kernels/matmul/epilogue.cuh.
#pragma once

#include <cstdint>
#include <optional>

#include "core/array.h"
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

// Template argument kEpilogue of kernels, MatmulDesc::epilogue. The values are those of
// kernels/matmul/epilogue.cuh.
inline constexpr unsigned kEpilogueAlpha = 1;
inline constexpr unsigned kEpilogueScales = 2;  // one or both; alpha is applied too
inline constexpr unsigned kEpilogueBias = 4;
inline constexpr unsigned kEpilogueResidual = 8;
inline constexpr unsigned kEpilogueActivationShift = 4;

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

// Mirror of the kernels' struct.
struct EpilogueArgs {
  cu::DevicePtr bias = 0;
  cu::DevicePtr residual = 0;
  cu::DevicePtr scale_a = 0;  // 0: 1
  cu::DevicePtr scale_b = 0;
  std::int64_t bias_step = 0;
  std::int64_t scale_a_step = 0, scale_b_step = 0;
  std::int64_t residual_m = 0, residual_n = 0, residual_batch = 0;
  float alpha = 1.0f, beta = 1.0f;
};
static_assert(sizeof(EpilogueArgs) == 88);

}  // namespace gpk::ops::gemm
