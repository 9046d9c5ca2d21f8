// Reductions of the elements that a mask selects, and with a value to start from: NumPy's `where`
// and `initial`. Composites of elementwise ops and reductions.
#pragma once

#include <optional>

#include "core/scalar.h"
#include "ops/reduction/reduce.h"

namespace gpk::ops {

struct MaskedReduction {
  ReduceOptions options;
  std::optional<Array> where;     // bool, broadcast to x's shape; nullopt: every element
  std::optional<Scalar> initial;  // sums, products and extremes: combined with the elements
};

// reduce() of the selected elements. Extremes with a mask need `initial`, which also makes them
// defined for no elements. Throws as reduce() does, and InvalidArgument for a mask that is not bool
// or does not fit, and for a value the result's dtype cannot hold.
Array reduce_masked(OpId op, const Array& x, const MaskedReduction& request);

}  // namespace gpk::ops
