// What a reduction looks like after dimensions have been merged.
#pragma once

#include <cstdint>

#include "core/array.h"
#include "kernels/args/reduction.h"

namespace gpk::ops::reduction {

using kernels::ReduceLayout;

// A layout and where its first element is: negative strides are reversed where order is free.
struct Collapsed {
  ReduceLayout layout;
  std::int64_t in_offset = 0;  // in elements, from the array's first
  bool fits = true;            // false: more dimensions than kernels take
};

// `x` reduced along the axes whose bit is set, to `out`, which has the other axes only. Dimensions
// are put in the order of memory; reduced ones only when `ordered` is false (indices count them in
// the order of `x`).
Collapsed collapse(const Array& x, std::uint32_t axes, const Array& out, bool ordered);

}  // namespace gpk::ops::reduction
