// Ops along one axis, as rows: the axis moved to the end, contiguous. Also the checks shared by all
// ops of the family.
#pragma once

#include <optional>

#include "core/array.h"
#include "ops/cpu_backend.h"

namespace gpk::ops::sorting {

struct Rows {
  Array data;  // rows * len elements, contiguous
  Dims shape;  // with the axis last
  int axis = 0;
  std::int64_t rows = 0;
  std::int64_t len = 0;
};

// `array` is at least one-dimensional. No copy where the axis is already last and contiguous.
Rows rows_along(const Array& array, int axis, const char* op);

// A contiguous array (of the rows' shape, with `len` as its last size) as a view with its last axis
// moved back to `axis`.
Array axis_back(const Array& array, int axis, const char* op);
// The inverse: a view of `array` with `axis` last.
Array axis_last(const Array& array, int axis, const char* op);

// Throws for storage-only dtypes.
void check_compute_dtype(const Array& array, const char* argument, const char* op);

// One-dimensional, C order.
Array flatten(const Array& array, const char* op);

// A new array with the elements of both, concatenated.
Array concatenate_flat(const Array& a, const Array& b, DType dtype, const char* op);

}  // namespace gpk::ops::sorting
