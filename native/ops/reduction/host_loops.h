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

// out[r, i] = the sum (product) of x[r, 0] ... x[r, i]; both may be the same.
void scan_rows(const float* x, float* out, std::int64_t rows, std::int64_t cols, bool product);

}  // namespace gpk::ops
