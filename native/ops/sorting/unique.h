// The distinct elements of an array, sorted. Their number depends on the data, so one count is read
// back, and none of this can be captured in a graph.
#pragma once

#include <optional>

#include "core/array.h"

namespace gpk::ops {

struct UniqueRequest {
  bool index = false;
  bool inverse = false;
  bool counts = false;
  bool equal_nan = true;  // false: every NaN is distinct
};

struct UniqueResult {
  Array values;                       // one-dimensional
  std::optional<Array> index = {};    // first occurrence of each value in the flattened array
  std::optional<Array> inverse = {};  // x's shape: index of each element's value
  std::optional<Array> counts = {};
};

UniqueResult unique(const Array& x, const UniqueRequest& request, const char* op);

namespace sorting {

// The elements of a one-dimensional array with flags[i] true, in order. Also reads back a count.
Array select_flagged(const Array& x, const Array& flags, const char* op);

}  // namespace sorting

}  // namespace gpk::ops
