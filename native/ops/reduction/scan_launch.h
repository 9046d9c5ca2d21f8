// From a checked scan to kernels on the current stream.
#pragma once

#include "core/array.h"
#include "ops/reduction/scan.h"

namespace gpk::ops::reduction {

struct ScanWork {
  const char* op;
  bool product;
  bool skip_nan;
  bool include_initial;
};

// `out` has the shape of `x` (one more along `axis` with include_initial), any strides, a dtype of
// the result's class; no memory shared with `x` unless it is the same view.
void launch_scan(const ScanWork& work, const Array& x, int axis, const Array& out);

}  // namespace gpk::ops::reduction
