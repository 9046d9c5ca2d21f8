// Counts per bin. Without weights they are exact integers; with weights each bin is summed in a
// fixed order in float64, so results are deterministic.
#pragma once

#include <optional>
#include <utility>

#include "core/array.h"

namespace gpk::ops {

struct HistogramResult {
  Array counts;  // int64, the weights' dtype, or float64 for a density
  Array edges;   // num_bins + 1
};

struct HistogramRequest {
  std::int64_t num_bins = 10;
  std::optional<std::pair<double, double>> range = {};  // default: that of the data
  std::optional<Array> edges = {};                      // ascending; instead of the two above
  std::optional<Array> weights = {};                    // of x's shape
  bool density = false;
};

// Bins are half-open except the last. A range computed from the data is not checked: where it is
// not finite (NumPy raises) the edges are NaN and all counts are zero.
HistogramResult histogram(const Array& x, const HistogramRequest& request);

// Count (or sum of weights) of each value of a one-dimensional array of non-negative integers. The
// size of the result depends on the data.
Array bincount(const Array& x, const std::optional<Array>& weights, std::int64_t min_length);

}  // namespace gpk::ops
