// Dtypes that reductions and scans take and give.
#pragma once

#include <optional>

#include "core/array.h"

namespace gpk::ops::reduction {

// Throws InvalidArgument (kType) for storage types.
void check_dtypes(const char* op, const Array& x, std::optional<DType> asked);

// Of sums and products: bool and integers become 64 bits wide.
DType fold_dtype(DType in, std::optional<DType> asked);

// Whether elements are read as they are for a sum or product of dtype `result`. Otherwise they are
// cast first: the class goes down, or becomes complex.
bool reads_directly(DType in, DType result);

// What a fold that leaves NaN out reads: where the cast to `result` would give NaN a value, `x`
// with the fold's identity in its place.
Array before_cast(const Array& x, DType result, bool product);

}  // namespace gpk::ops::reduction
