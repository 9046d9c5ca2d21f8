// Common dtype of several arrays and Python numbers.
#pragma once

#include <span>

#include "core/promote.h"

namespace gpk::inline core {

// NumPy's result_type: the highest kind is determined first, so the order does not matter. Numbers
// are weak; on their own they give bool, int64, float32 or complex64. Throws InvalidArgument that
// names `op` when there are no arguments or no common dtype.
DType result_type(std::span<const DType> dtypes, std::span<const Scalar> numbers, const char* op);

}  // namespace gpk::inline core
