// Sums and scans of float32 on the host, for CPU simulation: accumulated in float64, as the kernels
// do, at the speed of memory. Arrays are contiguous.
#pragma once

#include <cstdint>

namespace gpk::ops {

// out[o, i] = the sum over j of x[o, j, i], eight at a time in float32; with `mean` [o, i] of
// (x[o, j, i] - mean)^2.
struct SumShape {
  std::int64_t outer, reduced, inner;
};
void sum_wide(const float* x, const double* mean, double* out, const SumShape& shape);

// out[o, j, i] = the sum (product) of x[o, 0, i] ... x[o, j, i]; both may be the same.
struct ScanShape {
  std::int64_t outer, scanned, inner;
};
void scan_wide(const float* x, float* out, const ScanShape& shape, bool product);

}  // namespace gpk::ops
