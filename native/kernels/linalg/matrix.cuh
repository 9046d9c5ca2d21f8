// What the kernels of this folder share: numbers of both kinds, matrices in memory, reductions of a
// block.
#pragma once

#include "args/linalg.h"
#include "common/complex.cuh"
#include "common/shared.cuh"

namespace gpk {

using namespace kernels;

template <class T>
struct Number {
  using Real = T;
  static __device__ __forceinline__ T of(T re) { return re; }
  static __device__ __forceinline__ T conj(T x) { return x; }
  static __device__ __forceinline__ T real(T x) { return x; }
  static __device__ __forceinline__ T imag(T) { return T(0); }
  static __device__ __forceinline__ T magnitude(T x) { return fabs(x); }
  static __device__ __forceinline__ T sum_of_parts(T x) { return fabs(x); }
  static __device__ __forceinline__ T scale(T x, T by) { return x * by; }
  static __device__ __forceinline__ T over(T x, T by) { return x / by; }
};
template <class R>
struct Number<Complex<R>> {
  using Real = R;
  using T = Complex<R>;
  static __device__ __forceinline__ T of(R re) { return {re, R(0)}; }
  static __device__ __forceinline__ T conj(T x) { return {x.re, -x.im}; }
  static __device__ __forceinline__ R real(T x) { return x.re; }
  static __device__ __forceinline__ R imag(T x) { return x.im; }
  static __device__ __forceinline__ R magnitude(T x) { return hypot(x.re, x.im); }
  static __device__ __forceinline__ R sum_of_parts(T x) { return fabs(x.re) + fabs(x.im); }
  static __device__ __forceinline__ T scale(T x, R by) { return {x.re * by, x.im * by}; }
  static __device__ __forceinline__ T over(T x, R by) { return {x.re / by, x.im / by}; }
};
template <class T>
using RealOf = typename Number<T>::Real;

// Distance from 1 to the next number.
template <class R>
inline constexpr R kEpsilon = sizeof(R) == 4 ? R(0x1p-23) : R(0x1p-52);

// Whether 1 / x, of that magnitude, is a normal number with a normal reciprocal.
template <class R>
__device__ __forceinline__ bool has_reciprocal(R size) {
  constexpr R kSmall = R(sizeof(R) == 4 ? 0x1p-124 : 0x1p-1020);
  return size >= kSmall && size <= R(1) / kSmall;
}

template <class T>
struct Matrix {
  T* data;
  long long row, col;

  __device__ __forceinline__ Matrix(T* p, long long r, long long c) : data(p), row(r), col(c) {}
  __device__ __forceinline__ Matrix(const LinalgMatrix& m, long long batch)
      : data(static_cast<T*>(m.data) + batch * m.batch), row(m.row), col(m.col) {}
  __device__ __forceinline__ T& operator()(long long i, long long j) const {
    return data[i * row + j * col];
  }
  // The block that begins at (i, j).
  __device__ __forceinline__ Matrix from(long long i, long long j) const {
    return {data + i * row + j * col, row, col};
  }
};

__device__ __forceinline__ long long step_size(long long stride) {
  return stride < 0 ? -stride : stride;
}

// Odd: columns of shared memory are free of bank conflicts.
__device__ __forceinline__ int odd_pitch(int cols) { return cols | 1; }

template <class T>
__device__ __forceinline__ void copy_matrix(const Matrix<T>& to, const Matrix<T>& from, int rows,
                                            int cols) {
  for (int at = static_cast<int>(threadIdx.x); at < rows * cols; at += static_cast<int>(blockDim.x))
    to(at / cols, at % cols) = from(at / cols, at % cols);
}

// A lane's value, for the whole warp.
template <class R>
__device__ __forceinline__ R shuffle(R x, int lane) {
  return __shfl_sync(0xffffffffu, x, lane);
}
template <class R>
__device__ __forceinline__ Complex<R> shuffle(Complex<R> x, int lane) {
  return {shuffle(x.re, lane), shuffle(x.im, lane)};
}

template <class R>
__device__ __forceinline__ R shuffle_xor(R x, int mask) {
  return __shfl_xor_sync(0xffffffffu, x, mask);
}
template <class R>
__device__ __forceinline__ Complex<R> shuffle_xor(Complex<R> x, int mask) {
  return {shuffle_xor(x.re, mask), shuffle_xor(x.im, mask)};
}

// The sum of a warp, for all of it.
template <class T>
__device__ __forceinline__ T sum_lanes(T x) {
  using N = Number<T>;
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) {
    if constexpr (sizeof(T) == sizeof(RealOf<T>)) {
      x += __shfl_xor_sync(0xffffffffu, x, mask);
    } else {
      x = x + T{__shfl_xor_sync(0xffffffffu, N::real(x), mask),
                __shfl_xor_sync(0xffffffffu, N::imag(x), mask)};
    }
  }
  return x;
}

template <int kAt>
struct Slot {
  static constexpr int kValue = kAt;
};
// visit(Slot<0>()), visit(Slot<1>()), ...: indices of registers are constants.
template <int kCount, int kAt = 0, class Visit>
__device__ __forceinline__ void for_each_slot(const Visit& visit) {
  if constexpr (kAt < kCount) {
    visit(Slot<kAt>());
    for_each_slot<kCount, kAt + 1>(visit);
  }
}

template <class R>
__device__ __forceinline__ R larger(R a, R b) {  // NaN where one is
  return a >= b || a != a ? a : b;
}

// The largest (or the sum) of all threads, for all of them. `slots` holds one value per warp.
template <class R, bool kMax>
__device__ __forceinline__ R reduce_block(R value, R* slots) {
  for (int mask = 16; mask > 0; mask /= 2) {
    const R other = __shfl_xor_sync(0xffffffffu, value, mask);
    value = kMax ? larger(value, other) : value + other;
  }
  const int warps = static_cast<int>(blockDim.x) / 32;
  __syncthreads();  // of an earlier use
  if (threadIdx.x % 32 == 0) slots[threadIdx.x / 32] = value;
  __syncthreads();
  R all = slots[0];
  for (int i = 1; i < warps; ++i) all = kMax ? larger(all, slots[i]) : all + slots[i];
  return all;
}

}  // namespace gpk
