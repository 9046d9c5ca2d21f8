// Linear layers: one GEMM, x w^T, with a fused epilogue.
#pragma once

#include "ops/matmul/gemm_call.h"
#include "ops/matmul/matmul.h"
#include "ops/quantize/packed_weight.h"

namespace gpk::ops {

// Of x: rmsnorm(x) * (offset + weight), rounded to its dtype; or layernorm.
struct LinearNorm {
  Array weight;
  double eps = 1e-5;
  double offset = 0.0;
  std::optional<Array> bias = {};
  bool centred = false;  // layernorm
};

struct LinearOptions {
  std::optional<LinearNorm> norm;
  std::optional<Array> bias;      // n elements (SwiGLU: 2 n)
  std::optional<Array> residual;  // broadcasts to the result
  Activation activation = Activation::kNone;
  bool swiglu = false;  // w is a pair, gate rows then up rows: silu(x gate^T) * (x up^T)
  std::optional<Array> out;
  std::optional<bool> use_tf32;
  bool tf32x3 = false;  // as MatmulOptions
  std::optional<bool> float64_int8;
  bool batch_invariant = false;
  // Up to kMaxFewRows rows, which agree with other calls of that kind, but not with calls of more
  // rows; the norm and SwiGLU are part of the same launch. Implies batch_invariant.
  bool few_rows = false;
  // Packed weights of 8 bits with a scale per row (int8, fp8): rows of x are quantised to the same
  // format on the way, by their largest magnitude, and tensor cores multiply 8 bits.
  bool quantize_input = false;
};

// activation(norm(x) w^T + bias) + residual, [..., k] with [n, k] (SwiGLU: [2 n, k]) to [..., n].
// All arrays have one dtype: float16, bfloat16, float32 or float64. Rounded once. Throws
// InvalidArgument.
Array linear(const Array& x, const Array& w, const LinearOptions& options = {},
             const char* op = "linear");

// The same with packed weights, of which x, bias and residual have one dtype: float16, bfloat16 or
// float32. Sums are float32; few_rows as above.
Array linear(const Array& x, const PackedWeight& w, const LinearOptions& options = {},
             const char* op = "linear");

}  // namespace gpk::ops

namespace gpk::ops::gemm {

// x as the norm leaves it, by a launch of its own.
Array normalised(const Array& x, const LinearNorm& norm, bool few_rows);

}  // namespace gpk::ops::gemm
