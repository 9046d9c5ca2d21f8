// Division by a launch-time constant: two instructions instead of twenty.
#pragma once

#include "args/elementwise.h"

namespace gpk {

// n < 2**31.
__device__ __forceinline__ unsigned divide(unsigned n, const kernels::Divider& by) {
  return (__umulhi(n, by.magic) + n) >> by.shift;
}

}  // namespace gpk
