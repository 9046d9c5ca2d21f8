// Reductions along axes: sum, prod, max, min, any, all, count_nonzero, mean, var, std, argmax,
// argmin, and those that leave NaN out.
#pragma once

#include <optional>

#include "core/array.h"

namespace gpk::ops {

enum class Reduction : std::uint8_t {
  kSum,
  kProd,
  kMax,
  kMin,
  kAny,
  kAll,
  kCountNonzero,
  kMean,
  kVar,
  kStd,
  kArgMax,
  kArgMin,
  kNanSum,
  kNanProd,
  kNanMax,
  kNanMin,
  kNanMean,
  kNanVar,
  kNanStd,
  kNanArgMax,
  kNanArgMin,
};
inline constexpr int kNumReductions = 21;

// "sum", as in Python.
const char* name(Reduction reduction);

struct ReduceOptions {
  std::optional<Dims> axes;    // negative ones count from the end; nullopt: all
  std::optional<DType> dtype;  // sums, products, means, variances: of the result
  std::optional<Array> out;    // result shape, a dtype the result can be cast to (same kind)
  double correction = 0.0;     // variances: squares are divided by n - correction
  bool keepdims = false;       // reduced axes stay, with size 1
};

// dtypes: sums and products of bool and integers are int64 or uint64, means and variances of them
// float64; float16 and bfloat16 stay, computed in float32 or wider. Extremes propagate NaN, or
// leave it out (kNan...). Indices are int64 and count the reduced axes in C order; the first of
// equal elements; NaN is the largest and the smallest. kNanArg... of nothing but NaN: ValueError on
// the CPU, -1 on a GPU, which cannot tell without waiting. Throws InvalidArgument: axes, dtypes,
// `out`, and extremes of nothing.
Array reduce(Reduction reduction, const Array& x, const ReduceOptions& options = {});

// The dtype of the result.
DType reduce_dtype(Reduction reduction, DType in, std::optional<DType> asked);

}  // namespace gpk::ops
