// Sorts along an axis, in NumPy's order: NaN last, -0.0 equal to 0.0, complex numbers by real, then
// imaginary part. All are stable. Descending: NaN first, equal elements keep their order.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "core/array.h"

namespace gpk::ops {

// nullopt: of the flattened array.
using OptionalAxis = std::optional<std::int64_t>;

Array sort(const Array& x, OptionalAxis axis = -1, bool descending = false,
           const std::optional<Array>& out = std::nullopt, const char* op = "sort");

// int64 indices along the axis.
Array argsort(const Array& x, OptionalAxis axis = -1, bool descending = false,
              const std::optional<Array>& out = std::nullopt, const char* op = "argsort");

// Element kth[i] of each row is as in the sorted row, with smaller ones before and larger ones
// after. (Implemented as a full sort.)
Array partition(const Array& x, const Dims& kth, OptionalAxis axis = -1);
Array argpartition(const Array& x, const Dims& kth, OptionalAxis axis = -1);

// The k largest (smallest) elements of each row in descending (ascending) order, and their indices.
std::pair<Array, Array> topk(const Array& x, std::int64_t k, std::int64_t axis = -1,
                             bool largest = true);

// The order by keys.back(), ties by the key before it, and so on; along the axis. Equal shapes.
Array lexsort(const std::vector<Array>& keys, std::int64_t axis = -1);

}  // namespace gpk::ops
