// T X = B in place of B, T lower triangular with n <= kLinalgLeaf. A block has kTriangularCols
// columns of one matrix of the stack (grid x: matrix-major tiles), T and its columns in dynamic
// shared memory. Other triangles and transposes are strides of the operands.
#pragma once

#include "linalg/matrix.cuh"

namespace gpk {

template <class T>
__global__ __launch_bounds__(kLinalgThreads) void triangular_leaf(
    const __grid_constant__ TriangularArgs args) {
  constexpr int kGroups = kLinalgThreads / kTriangularCols;
  const int n = args.n;
  const long long tiles = (args.cols + kTriangularCols - 1) / kTriangularCols;
  const long long batch = blockIdx.x / tiles;
  const int lane = static_cast<int>(threadIdx.x) % kTriangularCols;
  const int group = static_cast<int>(threadIdx.x) / kTriangularCols;
  const long long col = blockIdx.x % tiles * kTriangularCols + lane;
  const Matrix<T> b(args.b, batch);
  const Matrix<T> from(args.t, batch);
  const Matrix<T> t(reinterpret_cast<T*>(dynamic_shared()), odd_pitch(n), 1);
  const Matrix<T> x(t.data + n * odd_pitch(n), kTriangularCols, 1);
  for (int at = static_cast<int>(threadIdx.x); at < n * n; at += kLinalgThreads) {
    const int i = at / n;
    const int j = at % n;
    if (j <= i) t(i, j) = args.conjugate ? Number<T>::conj(from(i, j)) : from(i, j);
  }
  if (col < args.cols)
    for (int i = group; i < n; i += kGroups) x(i, lane) = b(i, col);
  __syncthreads();
  for (int j = 0; j < n; ++j) {
    if (group == 0 && col < args.cols && !args.unit) x(j, lane) = x(j, lane) / t(j, j);
    __syncthreads();
    if (col < args.cols)
      for (int i = j + 1 + group; i < n; i += kGroups)
        x(i, lane) = x(i, lane) - t(i, j) * x(j, lane);
    __syncthreads();
  }
  if (col < args.cols)
    for (int i = group; i < n; i += kGroups) b(i, col) = x(i, lane);
}

}  // namespace gpk
