// One-dimensional arrays as sets. Results are sorted (setdiff1d with assume_unique: in x1's order);
// their sizes depend on the data.
#pragma once

#include "core/array.h"

namespace gpk::ops {

Array union1d(const Array& x1, const Array& x2);
Array intersect1d(const Array& x1, const Array& x2, bool assume_unique = false);
Array setdiff1d(const Array& x1, const Array& x2, bool assume_unique = false);
Array setxor1d(const Array& x1, const Array& x2, bool assume_unique = false);

}  // namespace gpk::ops
