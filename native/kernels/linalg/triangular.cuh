// T X = B in place of B by substitution, T lower triangular of order kTriangularOrder at most
// (kTriangularWideOrder where elements have 16 bytes). A block has kTriangularCols columns of one
// matrix of the stack (grid x: matrix-major tiles), a warp kTriangularSides of them: lane l has
// rows l, l + 32, ... in registers, so that a step is a shuffle and no barrier. Dynamic shared
// memory: two tiles of 32 columns, [column][row] of odd pitch, through which T comes in turn; B
// comes and goes by one of them. Quotients are products with reciprocals unless one is out of
// range. Other triangles and transposes are strides of the operands.
#pragma once

#include "common/cp_async.cuh"
#include "linalg/matrix.cuh"

namespace gpk {

inline constexpr int kTriangularSides = kTriangularCols * 32 / kLinalgThreads;

// Rows [first, rows) of up to 32 columns to [column][row]; threads walk along the shorter stride.
template <class T>
__device__ __forceinline__ void stage_columns(T* to, int pitch, const Matrix<T>& from, int first,
                                              int rows, int cols) {
  constexpr int kWarps = kLinalgThreads / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const auto copy = [&](int i, int j) {
    cp_async<sizeof(T)>(shared_address(to + j * pitch + i), &from(i, j));
  };
  if (step_size(from.row) < step_size(from.col)) {
    for (int j = warp; j < cols; j += kWarps)
      for (int i = first + lane; i < rows; i += 32) copy(i, j);
  } else if (lane < cols) {
    for (int i = first + warp; i < rows; i += kWarps) copy(i, lane);
  }
}

// From shared to global memory.
template <class T>
__device__ __forceinline__ void store_columns(const Matrix<T>& to, const T* from, int pitch,
                                              int rows, int cols) {
  constexpr int kWarps = kLinalgThreads / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (step_size(to.row) < step_size(to.col)) {
    for (int j = warp; j < cols; j += kWarps)
      for (int i = lane; i < rows; i += 32) to(i, j) = from[j * pitch + i];
  } else if (lane < cols) {
    for (int i = warp; i < rows; i += kWarps) to(i, lane) = from[lane * pitch + i];
  }
}

// A warp's columns of B.
template <class T>
struct Substitution {
  static constexpr int kSlots =
      (sizeof(T) == 16 ? kTriangularWideOrder : kTriangularOrder) / 32;  // rows of a lane
  T x[kSlots][kTriangularSides];

  // `columns`: this warp's, [column][row]; `cols` of them exist.
  __device__ __forceinline__ void load(const T* columns, int pitch, int n, int cols) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int slot = 0; slot < kSlots; ++slot)
#pragma unroll
      for (int side = 0; side < kTriangularSides; ++side)
        x[slot][side] = side < cols && slot * 32 + lane < n
                            ? columns[side * pitch + slot * 32 + lane]
                            : Number<T>::of(RealOf<T>(0));
  }
  __device__ __forceinline__ void store(T* columns, int pitch, int n, int cols) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int slot = 0; slot < kSlots; ++slot)
#pragma unroll
      for (int side = 0; side < kTriangularSides; ++side)
        if (side < cols && slot * 32 + lane < n)
          columns[side * pitch + slot * 32 + lane] = x[slot][side];
  }

  // Rows 32 kSlot and following of X, and their part of all rows below; `tile`: those columns of T.
  template <int kSlot>
  __device__ __forceinline__ void eliminate(const T* tile, int pitch, const TriangularArgs& args) {
    using N = Number<T>;
    using R = RealOf<T>;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int count = min(32, args.n - kSlot * 32);
    const bool divides = args.unit == 0;
    T diagonal = N::of(R(1));
    if (divides && lane < count) diagonal = tile[lane * pitch + kSlot * 32 + lane];
    if (args.conjugate != 0) diagonal = N::conj(diagonal);
    const bool exact = __any_sync(0xffffffffu, !has_reciprocal(N::sum_of_parts(diagonal)));
    if (!exact) diagonal = N::of(R(1)) / diagonal;
#pragma unroll 2
    for (int j = 0; j < count; ++j) {
      const T by = shuffle(diagonal, j);
      T y[kTriangularSides];
#pragma unroll
      for (int side = 0; side < kTriangularSides; ++side) {
        y[side] = shuffle(x[kSlot][side], j);
        if (divides) y[side] = exact ? y[side] / by : y[side] * by;
        if (lane == j) x[kSlot][side] = y[side];
      }
#pragma unroll
      for (int slot = kSlot; slot < kSlots; ++slot) {
        if (slot * 32 >= args.n || (slot == kSlot && lane <= j)) continue;
        T t = tile[j * pitch + slot * 32 + lane];
        if (args.conjugate != 0) t = N::conj(t);
#pragma unroll
        for (int side = 0; side < kTriangularSides; ++side)
          x[slot][side] = x[slot][side] - t * y[side];
      }
    }
  }
};

template <class T>
__global__ __launch_bounds__(kLinalgThreads,
                             2) void triangular_leaf(const __grid_constant__ TriangularArgs args) {
  using Sides = Substitution<T>;
  const int n = args.n;
  const int pitch = (n + 31) / 32 * 32 + 1;
  const long long tiles = (args.cols + kTriangularCols - 1) / kTriangularCols;
  const long long batch = blockIdx.x / tiles;
  const long long first = blockIdx.x % tiles * kTriangularCols;
  const int cols = static_cast<int>(min(args.cols - first, 1LL * kTriangularCols));
  const Matrix<T> t(args.t, batch);
  const Matrix<T> b = Matrix<T>(args.b, batch).from(0, first);
  const auto tile = [&](int i) {
    return reinterpret_cast<T*>(dynamic_shared()) + i % 2 * (32 * pitch);
  };
  const int mine = static_cast<int>(threadIdx.x) / 32 * kTriangularSides;  // column of the warp
  stage_columns(tile(0), pitch, t, 0, n, min(n, 32));
  stage_columns(tile(1), pitch, b, 0, n, cols);
  cp_async_commit();
  cp_async_wait<0>();
  __syncthreads();
  Sides sides;
  sides.load(tile(1) + mine * pitch, pitch, n, cols - mine);
  for_each_slot<Sides::kSlots>([&](auto slot) {
    constexpr int kSlot = decltype(slot)::kValue;
    if (kSlot * 32 >= n) return;
    __syncthreads();  // this tile has arrived, the other one has been read
    const int next = (kSlot + 1) * 32;
    if (next < n)
      stage_columns(tile(kSlot + 1), pitch, t.from(0, next), next, n, min(n - next, 32));
    cp_async_commit();
    if (mine < cols) sides.template eliminate<kSlot>(tile(kSlot), pitch, args);
    cp_async_wait<0>();
  });
  __syncthreads();
  sides.store(tile(0) + mine * pitch, pitch, n, cols - mine);
  __syncthreads();
  store_columns(b, tile(0), pitch, n, cols);
}

}  // namespace gpk
