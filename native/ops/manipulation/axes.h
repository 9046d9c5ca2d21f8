// Views with permuted or reversed axes.
#pragma once

#include <optional>

#include "core/array.h"

namespace gpk::ops {

// Reversed along the given axes; nullopt: along all.
Array flip(const Array& x, const std::optional<Dims>& axes);

// Axis source[i] moves to position destination[i]; the others keep their order.
Array moveaxis(const Array& x, const Dims& source, const Dims& destination);

Array swapaxes(const Array& x, std::int64_t a, std::int64_t b, const char* op);

// The same bytes as another dtype. If its size differs, the last axis, which must be contiguous,
// changes its length; InvalidArgument when the bytes do not divide evenly.
Array view_as(const Array& x, DType dtype);

}  // namespace gpk::ops
