// Quantiles of sorted rows, linearly interpolated: out[k, r] for quantile q[k] of row r. data: rows
// x len, sorted, NaN last: a row with NaN gives NaN. Median: the mean of the middle one or two.
// Computed in double, rounded once. Grid-stride over num_q * rows; any grid works.
#pragma once

#include "args/sorting.h"
#include "sorting/number.cuh"

namespace gpk {

using namespace kernels;

// Like NumPy: from the nearer end, so that both ends are exact.
__device__ __forceinline__ double interpolate(double low, double high, double t) {
  if (t == 0.0 || low == high) return low;  // also where both are infinite
  const double width = __dadd_rn(high, -low);
  if (t >= 0.5) return __dadd_rn(high, -__dmul_rn(width, __dadd_rn(1.0, -t)));
  return __dadd_rn(low, __dmul_rn(width, t));
}

__device__ __forceinline__ double quantile_of_row(const QuantileArgs& args, long long row,
                                                  double q) {
  const long long first = row * args.len;
  const long long last = args.len - 1;
  const double largest = load_number(args.data, first + last, args.code);
  if (largest != largest) return largest;
  if (args.median != 0) {
    const double low = load_number(args.data, first + last / 2, args.code);
    const double high = load_number(args.data, first + args.len / 2, args.code);
    return args.len % 2 == 1 ? low : __dadd_rn(low, high) / 2.0;
  }
  const double place = __dmul_rn(q, static_cast<double>(last));
  const double whole = floor(place);
  const long long below = whole < static_cast<double>(last) ? static_cast<long long>(whole) : last;
  const long long above = below < last ? below + 1 : last;
  return interpolate(load_number(args.data, first + below, args.code),
                     load_number(args.data, first + above, args.code),
                     __dadd_rn(place, -static_cast<double>(below)));
}

__global__ void __launch_bounds__(256) quantile_kernel(const QuantileArgs args) {
  const long long total = args.rows * args.num_q;
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < total;
       i += step) {
    const double q = args.q[i / args.rows];
    store_number(args.out, i, args.out_code, quantile_of_row(args, i % args.rows, q));
  }
}

}  // namespace gpk
