// Order statistics along axes: sorted, then interpolated linearly. NaN anywhere gives NaN.
#pragma once

#include <optional>
#include <vector>

#include "core/array.h"

namespace gpk::ops {

// Integers give float64; floating dtypes are kept. No axes: over all elements.
Array median(const Array& x, const std::optional<Dims>& axes, bool keepdims);

// The values at fractions q (0 to 1): q_shape, then the remaining shape of x. The result is float64
// when `wide`, else as for median.
Array quantile(const Array& x, const std::vector<double>& q, const Dims& q_shape, bool wide,
               const std::optional<Dims>& axes, bool keepdims, const char* op);

}  // namespace gpk::ops
