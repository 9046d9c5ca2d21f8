// Copies that convert: any strides, any dtypes. The other families bring their inputs into shape
// with these.
#pragma once

#include "core/array.h"

namespace gpk::ops {

// dst[...] = src, broadcast to dst's shape and cast to its dtype (as NumPy's casting="unsafe").
// Overlapping views are right. Throws InvalidArgument for shapes that do not fit or two devices.
void copy_into(const Array& dst, const Array& src, const char* op);

// `array` itself when it is C-contiguous, else a copy that is.
Array contiguous(const Array& array, const char* op);

// Whether elements along the last axis are neighbours.
bool has_rows(const Array& array);
// `array` itself where that is so, else a C-contiguous copy.
Array with_rows(const Array& array, const char* op);

// `array` itself when it has that dtype, else a C-contiguous copy.
Array cast(const Array& array, DType dtype, const char* op);

// Both at once; always a fresh buffer.
Array copy_as(const Array& array, DType dtype, const char* op);

// A view where possible, else a copy. -1 in `shape` is filled in.
Array reshape(const Array& array, const Dims& shape, const char* op);

}  // namespace gpk::ops
