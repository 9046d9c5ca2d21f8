// GEMM of quantised operands: FP8 and INT8 with scales.
#pragma once

#include <optional>
#include <variant>

#include "core/array.h"

namespace gpk::ops {

// A number, or float32 on the device: one element, one per row of a (column of b), or, e4m3 only
// and for both, one per block: of a [..., m, k / 128], of b [k / 128, n / 128] or [k / 128, n],
// sizes rounded up. Other blocks are recognised by their shape and refused by name.
using Scale = std::variant<double, Array>;

struct ScaledOptions {
  std::optional<Array> bias;   // n elements, dtype of the result
  std::optional<DType> dtype;  // float32 (nullopt), float16 or bfloat16
  std::optional<Array> out;
  bool fast_accum = false;  // FP8: sums may have fewer bits than float32
};

// (scale_a * a) (scale_b * b) + bias: a [..., m, k] and b [k, n], both FP8 (e4m3 and e5m2 may mix)
// or both int8. Sums are in float32, of int8 in int32. A scale per row has shape a.shape[:-1], or
// that with a last 1; a scale per column (n,) or (1, n). Throws InvalidArgument.
Array scaled_matmul(const Array& a, const Array& b, const Scale& scale_a, const Scale& scale_b,
                    const ScaledOptions& options = {});

// float32 matrices, quantized to e4m3 with a scale for each matrix on the way, to float32.
Array matmul_fp8(const Array& a, const Array& b, const std::optional<Array>& out,
                 const char* op = "matmul_fp8");

}  // namespace gpk::ops
