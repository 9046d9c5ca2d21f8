// Row i of A is swapped with row pivots[i] - first, in order or backward. A block has a tile of
// columns as wide as a line of 128 bytes (grid x: matrix-major). kSwapRows swaps at a time: every
// row they touch is traced back to where its elements are, all of those rows are read, then
// written.
#pragma once

#include "linalg/matrix.cuh"

namespace gpk {

template <class T>
__global__ __launch_bounds__(kLinalgThreads) void swap_rows(
    const __grid_constant__ SwapRowsArgs args) {
  constexpr int kCols = kSwapLineBytes / static_cast<int>(sizeof(T));
  __shared__ T tile[2 * kSwapRows * kCols];
  __shared__ int pivots[kSwapRows];
  __shared__ int to[2 * kSwapRows];  // < 0: stays, or an entry before it has the same row
  __shared__ int from[2 * kSwapRows];
  const int thread = static_cast<int>(threadIdx.x);
  const long long tiles = (args.cols + kCols - 1) / kCols;
  const long long batch = blockIdx.x / tiles;
  const long long first = blockIdx.x % tiles * kCols;
  const Matrix<T> a = Matrix<T>(args.a, batch).from(0, first);
  const int* const all = args.pivots + batch * args.pivots_batch;
  const int cols = static_cast<int>(min(args.cols - first, 1LL * kCols));
  int lanes = kCols;  // side by side in a row: a power of two, the others take more rows
  while (lanes / 2 >= cols) lanes /= 2;
  const int col = thread % lanes;
  const int chunks = (args.count + kSwapRows - 1) / kSwapRows;
  for (int c = 0; c < chunks; ++c) {
    const int begin = (args.backward != 0 ? chunks - 1 - c : c) * kSwapRows;
    const int count = min(args.count - begin, kSwapRows);
    __syncthreads();  // what the chunk before read
    for (int i = thread; i < count; i += kLinalgThreads) {
      const int pivot = all[begin + i] - args.first;
      pivots[i] = pivot >= 0 && pivot < args.rows ? pivot : begin + i;
    }
    __syncthreads();
    for (int at = thread; at < 2 * count; at += kLinalgThreads) {
      const int row = at < count ? begin + at : pivots[at - count];
      int place = row;
      bool is_repeated = at >= count && row >= begin && row < begin + count;
      for (int step = 0; step < count; ++step) {  // the last swap first
        const int i = args.backward != 0 ? step : count - 1 - step;
        const int pivot = pivots[i];
        is_repeated |= at >= count && pivot == row && i < at - count;
        if (place == begin + i) {
          place = pivot;
        } else if (place == pivot) {
          place = begin + i;
        }
      }
      to[at] = place == row || is_repeated ? -1 : row;
      from[at] = place;
    }
    __syncthreads();
    if (col < cols)
      for (int at = thread / lanes; at < 2 * count; at += kLinalgThreads / lanes)
        if (to[at] >= 0) tile[at * lanes + col] = a(from[at], col);
    __syncthreads();
    if (col < cols)
      for (int at = thread / lanes; at < 2 * count; at += kLinalgThreads / lanes)
        if (to[at] >= 0) a(to[at], col) = tile[at * lanes + col];
  }
}

}  // namespace gpk
