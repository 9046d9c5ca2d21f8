// Reductions along axes: the GPK_REDUCTION lines of ops.def.
#pragma once

#include <optional>

#include "core/array.h"
#include "ops/op.h"
#include "ops/reduction/rules.h"

namespace gpk::ops {

struct ReduceOptions {
  std::optional<Dims> axes;    // negative ones count from the end; nullopt: all
  std::optional<DType> dtype;  // sums, products, means, variances: of the result
  std::optional<Array> out;    // result shape, a dtype the result can be cast to (same kind)
  double correction = 0.0;     // variances: squares are divided by n - correction
  bool keepdims = false;       // reduced axes stay, with size 1
};

// dtypes: sums and products of bool and integers are int64 or uint64, means and variances of them
// float64; float16 and bfloat16 stay, computed in float32 or wider. Extremes propagate NaN, or
// leave it out (kNotNan). Indices are int64 and count the reduced axes in C order; the first of
// equal elements; NaN is the largest and the smallest. Indices of nothing but NaN: ValueError on
// the CPU, -1 on a GPU, which cannot tell without waiting. Throws InvalidArgument: axes, dtypes,
// `out`, and extremes of nothing.
Array reduce(OpId op, const Array& x, const ReduceOptions& options = {});

namespace reduction {

// The dtype of the result.
DType reduce_dtype(OpId op, DType in, std::optional<DType> asked);

}  // namespace reduction

}  // namespace gpk::ops
