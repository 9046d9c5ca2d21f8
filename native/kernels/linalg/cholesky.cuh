// A = L L^H in place, right-looking, for n <= kLinalgLeaf: lower triangle, a block for each matrix
// of the stack (grid x), all of it in dynamic shared memory (n rows of odd pitch). A pivot that is
// not positive ends the matrix, with its column in `status` unless there is one already.
#pragma once

#include "linalg/matrix.cuh"

namespace gpk {

template <class T>
__global__ __launch_bounds__(kLinalgThreads) void cholesky_leaf(
    const __grid_constant__ CholeskyArgs args) {
  using N = Number<T>;
  using R = RealOf<T>;
  const int n = args.n;
  const int thread = static_cast<int>(threadIdx.x);
  const Matrix<T> global(args.a, blockIdx.x);
  const Matrix<T> a(reinterpret_cast<T*>(dynamic_shared()), odd_pitch(n), 1);
  for (int at = thread; at < n * n; at += kLinalgThreads) {
    const int i = at / n;
    const int j = at % n;
    if (j <= i) a(i, j) = global(i, j);
  }
  __syncthreads();
  for (int j = 0; j < n; ++j) {
    const R pivot = N::real(a(j, j));
    if (!(pivot > R(0))) {
      if (thread == 0 && args.status[blockIdx.x] == 0) args.status[blockIdx.x] = args.first + j + 1;
      break;
    }
    const R root = sqrt(pivot);
    __syncthreads();  // the pivot has been read
    if (thread == 0) a(j, j) = N::of(root);
    for (int i = j + 1 + thread; i < n; i += kLinalgThreads)
      a(i, j) = N::scale(a(i, j), R(1) / root);
    __syncthreads();
    for (int i = j + 1 + thread / 16; i < n; i += kLinalgThreads / 16)
      for (int k = j + 1 + thread % 16; k <= i; k += 16)
        a(i, k) = a(i, k) - a(i, j) * N::conj(a(k, j));
    __syncthreads();
  }
  __syncthreads();
  for (int at = thread; at < n * n; at += kLinalgThreads) {
    const int i = at / n;
    const int j = at % n;
    if (j <= i) global(i, j) = a(i, j);
  }
}

}  // namespace gpk
