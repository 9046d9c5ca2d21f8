// out[r] = x[r, target[r]] - log(sum(exp(x[r, :]))), 0 where the target is `ignored`, NaN where it
// is no column. Each row is read once. Grid: rows (row.cuh). Numerics: float32.
#pragma once

#include "nn/softmax.cuh"

namespace gpk {

template <class T, class Index, int kV>
__global__ void __launch_bounds__(kMaxRowGroup) log_likelihood_rows(const LogLikelihoodArgs args) {
  __shared__ float shared[2][16];
  const int group = args.group;
  const RowPlace at(group);
  const bool active = at.row < args.rows;
  const T* const row = static_cast<const T*>(args.x) + (active ? at.row : 0) * args.x_row;
  const Row<T, kV, 0> x(row, at.lane, group, active ? args.width : 0);
  Exponentials<T> part;
  x.each([&](const float (&e)[kV], int, int) {
    float top = e[0];
#pragma unroll
    for (int v = 1; v < kV; ++v) top = fmaxf(top, e[v]);
    if (top > part.largest) {
      part.sum *= exponential<T>(part.largest - top);
      part.largest = top;
    }
    const float base = part.largest > minus_infinity() ? part.largest : 0.0f;
#pragma unroll
    for (int v = 0; v < kV; ++v) part.sum += exponential<T>(e[v] - base);
  });
  const float largest = combine<MaxOp>(part.largest, group, shared[0]);
  const float sum = combine<SumOp>(part.largest > minus_infinity()
                                       ? part.sum * exponential<T>(part.largest - largest)
                                       : part.sum,
                                   group, shared[1]);
  if (!active || at.lane != 0) return;
  const long long target = static_cast<const Index*>(args.targets)[at.row];
  float result = __int_as_float(0x7fffffff);  // NaN
  if (target == args.ignored) {
    result = 0.0f;
  } else if (target >= 0 && target < args.width) {
    result = to_compute(row[target]) - (largest + logf(sum));
  }
  args.out[at.row] = result;
}

}  // namespace gpk
