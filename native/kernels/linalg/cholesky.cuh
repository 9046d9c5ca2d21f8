// A = L L^H in place, right-looking, for n <= kLinalgLeaf: lower triangle, a block for each matrix
// of the stack (grid x). Thread (x, y) of 16 x 16 has rows x, x + 16, ... and columns y, y + 16,
// ... in registers; a column passes through shared memory, with one barrier. Columns are divided by
// the square roots of their pivots at the end. A pivot that is not positive ends the matrix, with
// its column in `status` unless there is one already.
#pragma once

#include "linalg/matrix.cuh"

namespace gpk {

template <class T>
__global__ __launch_bounds__(kLinalgThreads) void cholesky_leaf(
    const __grid_constant__ CholeskyArgs args) {
  using N = Number<T>;
  using R = RealOf<T>;
  constexpr int kSide = 16;
  constexpr int kSlots = kLinalgLeaf / kSide;
  static_assert(kSide * kSide == kLinalgThreads);
  __shared__ T columns[2][kLinalgLeaf];  // in turn
  __shared__ R pivots[kLinalgLeaf];
  const int n = args.n;
  const int x = static_cast<int>(threadIdx.x) / kSide;
  const int y = static_cast<int>(threadIdx.x) % kSide;
  const Matrix<T> global = Matrix<T>(args.a, blockIdx.x).from(x, y);
  T a[kSlots][kSlots];
#pragma unroll
  for (int r = 0; r < kSlots; ++r)
#pragma unroll
    for (int c = 0; c <= r; ++c) {
      const bool inside = r * kSide + x < n && c * kSide + y <= r * kSide + x;
      a[r][c] = inside ? global(r * kSide, c * kSide) : N::of(R(0));
    }
  int done = 0;  // columns
  bool failed = false;
  for_each_slot<kSlots>([&](auto slot) {
    constexpr int kSlot = decltype(slot)::kValue;
#pragma unroll 1
    for (int at = 0; at < kSide && done < n && !failed; ++at) {
      T* const column = columns[at % 2];
      if (y == at)
#pragma unroll
        for (int r = kSlot; r < kSlots; ++r) column[r * kSide + x] = a[r][kSlot];
      __syncthreads();
      const R pivot = N::real(column[done]);
      failed = !(pivot > R(0));
      if (failed) break;
      if (threadIdx.x == 0) pivots[done] = pivot;
      const bool in_range = has_reciprocal(pivot);
      const R by = in_range ? R(1) / pivot : R(1) / sqrt(pivot);
      T right[kSlots];
#pragma unroll
      for (int c = kSlot; c < kSlots; ++c) right[c] = N::conj(column[c * kSide + y]);
#pragma unroll
      for (int r = kSlot; r < kSlots; ++r) {
        if (r * kSide >= n) break;
        T left = N::scale(column[r * kSide + x], by);
        if (!in_range) left = N::scale(left, by);
#pragma unroll
        for (int c = kSlot; c <= r; ++c)
          if (c > kSlot || y > at) a[r][c] = a[r][c] - left * right[c];
      }
      ++done;
    }
  });
  if (failed && threadIdx.x == 0 && args.status[blockIdx.x] == 0)
    args.status[blockIdx.x] = args.first + done + 1;
  __syncthreads();
#pragma unroll
  for (int c = 0; c < kSlots; ++c) {
    const int j = c * kSide + y;
    const R root = j < done ? sqrt(pivots[j]) : R(1);
#pragma unroll
    for (int r = c; r < kSlots; ++r) {
      const int i = r * kSide + x;
      if (i >= n || j > i) continue;
      global(r * kSide, c * kSide) =
          i == j && j < done ? N::of(root) : N::scale(a[r][c], R(1) / root);
    }
  }
}

}  // namespace gpk
