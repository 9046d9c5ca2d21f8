// P A = L U in place with partial pivoting, a block for each matrix of the stack (grid x): the
// whole matrix or a panel. kShared: in dynamic shared memory (rows of odd pitch), else where it is.
// Pivots are the largest |re| + |im|, the first of equal ones. A column of zeros is reported in
// `status` unless there is one already, and skipped.
#pragma once

#include "linalg/matrix.cuh"

namespace gpk {

template <class R>
struct Pivot {
  R size;
  int row;

  __device__ __forceinline__ void take(R other, int other_row) {
    if (other > size || (other == size && other_row < row)) {
      size = other;
      row = other_row;
    }
  }
};

// The row of the pivot of column j, for all threads.
template <class T>
__device__ __forceinline__ int find_pivot(const Matrix<T>& a, int j, int rows, RealOf<T>* sizes,
                                          int* at) {
  using R = RealOf<T>;
  Pivot<R> best{R(-1), j};
  for (int i = j + static_cast<int>(threadIdx.x); i < rows; i += static_cast<int>(blockDim.x)) {
    const R size = Number<T>::sum_of_parts(a(i, j));
    if (size > best.size) best = {size, i};
  }
  for (int mask = 16; mask > 0; mask /= 2) {
    const R size = __shfl_xor_sync(0xffffffffu, best.size, mask);
    const int row = __shfl_xor_sync(0xffffffffu, best.row, mask);
    best.take(size, row);
  }
  if (threadIdx.x % 32 == 0) {
    sizes[threadIdx.x / 32] = best.size;
    at[threadIdx.x / 32] = best.row;
  }
  __syncthreads();
  best = {sizes[0], at[0]};
  for (int w = 1; w < static_cast<int>(blockDim.x) / 32; ++w) best.take(sizes[w], at[w]);
  return best.row;
}

template <class T, bool kShared>
__global__ __launch_bounds__(kPanelThreads) void lu_leaf(const __grid_constant__ LuArgs args) {
  __shared__ RealOf<T> sizes[kPanelThreads / 32];
  __shared__ int rows_of[kPanelThreads / 32];
  const int rows = args.rows;
  const int cols = args.cols;
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);
  const Matrix<T> global(args.a, blockIdx.x);
  Matrix<T> a = global;
  if constexpr (kShared) {
    a = Matrix<T>(reinterpret_cast<T*>(dynamic_shared()), odd_pitch(cols), 1);
    copy_matrix(a, global, rows, cols);
    __syncthreads();
  }
  int* const pivots = args.pivots + blockIdx.x * args.pivots_batch;
  const int steps = rows < cols ? rows : cols;
  for (int j = 0; j < steps; ++j) {
    const int row = find_pivot(a, j, rows, sizes, rows_of);
    const T pivot = a(row, j);
    __syncthreads();  // the pivot and the slots have been read
    if (thread == 0) pivots[j] = args.first + row;
    if (pivot == Number<T>::of(RealOf<T>(0))) {
      if (thread == 0 && args.status[blockIdx.x] == 0) args.status[blockIdx.x] = args.first + j + 1;
      continue;
    }
    if (row != j)
      for (int k = thread; k < cols; k += threads) {
        const T upper = a(j, k);
        a(j, k) = a(row, k);
        a(row, k) = upper;
      }
    __syncthreads();
    for (int i = j + 1 + thread; i < rows; i += threads) a(i, j) = a(i, j) / pivot;
    __syncthreads();
    for (int i = j + 1 + thread / 32; i < rows; i += threads / 32) {
      const T factor = a(i, j);
      for (int k = j + 1 + thread % 32; k < cols; k += 32) a(i, k) = a(i, k) - factor * a(j, k);
    }
    __syncthreads();
  }
  if constexpr (kShared) {
    __syncthreads();
    copy_matrix(global, a, rows, cols);
  }
}

}  // namespace gpk
