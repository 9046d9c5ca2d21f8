// Views with axes in another order or direction.
#pragma once

#include <optional>

#include "core/array.h"

namespace gpk::ops {

// Reversed along the given axes; nullopt: along all.
Array flip(const Array& x, const std::optional<Dims>& axes);

// Axis source[i] goes to position destination[i]; the others keep their order.
Array moveaxis(const Array& x, const Dims& source, const Dims& destination);

Array swapaxes(const Array& x, std::int64_t a, std::int64_t b, const char* op);

// The same bytes as another dtype. Of another size: the last axis, which must be without gaps,
// changes its length; InvalidArgument when the bytes do not divide.
Array view_as(const Array& x, DType dtype);

}  // namespace gpk::ops
