// Searching in sorted data.
#pragma once

#include <optional>

#include "core/array.h"

namespace gpk::ops {

enum class Side { kLeft, kRight };

// For each element of x2 the position in x1 (one-dimensional, sorted, or sorted through `sorter`)
// before (kLeft) or after (kRight) equal elements: int64, x2's shape. Both are cast to their common
// dtype. Out-of-bounds entries of sorter are clamped.
Array searchsorted(const Array& x1, const Array& x2, Side side,
                   const std::optional<Array>& sorter = std::nullopt);

// Index of the bin of each element: bins[i - 1] <= x < bins[i] (right: < and <=) for ascending
// bins, reversed for descending ones; int64.
Array digitize(const Array& x, const Array& bins, bool right);

// Whether each element occurs in test_elements (or does not, with invert); bool, x's shape.
Array isin(const Array& x, const Array& test_elements, bool invert, const char* op = "isin");

// x[index]: x one-dimensional, index int64 and in bounds.
Array gather_flat(const Array& x, const Array& index);

}  // namespace gpk::ops
