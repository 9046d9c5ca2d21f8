// Householder QR in place, a block for each matrix of the stack (grid x): A = H_0 H_1 ... R with
// H_j = I - tau_j v_j v_j^H, v_j = 1 at row j and stored below it, as LAPACK's geqr2 (the diagonal
// of R is real). kShared: in dynamic shared memory (rows of odd pitch), else where it is. Norms are
// scaled by the largest element of a column: neither overflow nor underflow.
// wy_leaf: the upper triangular T with H_0 H_1 ... = I - V T V^H, from V^H V; a thread for each
// row.
#pragma once

#include "linalg/matrix.cuh"

namespace gpk {

template <class T>
struct Reflector {
  T tau;
  T divisor;  // of the column below the diagonal, after the scale
  RealOf<T> beta;
  RealOf<T> scale;
  bool identity;
};

// Of column j, for all threads.
template <class T>
__device__ __forceinline__ Reflector<T> make_reflector(const Matrix<T>& a, int j, int rows,
                                                       RealOf<T>* slots) {
  using N = Number<T>;
  using R = RealOf<T>;
  const int first = j + 1 + static_cast<int>(threadIdx.x);
  R big = R(0);
  for (int i = first; i < rows; i += static_cast<int>(blockDim.x)) {
    const R size = N::sum_of_parts(a(i, j));
    if (!(size <= big)) big = size;  // NaN too
  }
  big = reduce_block<R, true>(big, slots);
  R squares = R(0);
  if (big != R(0))
    for (int i = first; i < rows; i += static_cast<int>(blockDim.x)) {
      const R re = N::real(a(i, j)) / big;
      const R im = N::imag(a(i, j)) / big;
      squares += re * re + im * im;
    }
  squares = reduce_block<R, false>(squares, slots);
  const T alpha = a(j, j);
  const R scale = larger(big, N::sum_of_parts(alpha));
  const R rest = big == R(0) ? R(0) : big / scale * sqrt(squares);
  if (rest == R(0) && N::imag(alpha) == R(0))
    return {N::of(R(0)), N::of(R(1)), N::real(alpha), R(1), true};
  const T top = N::over(alpha, scale);
  const R beta = -copysign(hypot(N::magnitude(top), rest), N::real(top));
  const T difference = top - N::of(beta);
  return {N::over(difference, -beta), difference, beta * scale, scale, false};
}

template <class T, bool kShared>
__global__ __launch_bounds__(kPanelThreads) void qr_leaf(const __grid_constant__ QrArgs args) {
  using N = Number<T>;
  using R = RealOf<T>;
  __shared__ R slots[kPanelThreads / 32];
  __shared__ R part_re[kPanelThreads];
  __shared__ R part_im[kPanelThreads];
  const int rows = args.rows;
  const int cols = args.cols;
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int warp = thread / 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  const Matrix<T> global(args.a, blockIdx.x);
  Matrix<T> a = global;
  if constexpr (kShared) {
    a = Matrix<T>(reinterpret_cast<T*>(dynamic_shared()), odd_pitch(cols), 1);
    copy_matrix(a, global, rows, cols);
    __syncthreads();
  }
  T* const tau = static_cast<T*>(args.tau) + blockIdx.x * args.tau_batch;
  const int steps = rows < cols ? rows : cols;
  for (int j = 0; j < steps; ++j) {
    const Reflector<T> h = make_reflector(a, j, rows, slots);
    __syncthreads();  // the column has been read
    if (thread == 0) {
      tau[j] = h.tau;
      a(j, j) = N::of(h.beta);
    }
    if (h.identity) continue;
    for (int i = j + 1 + thread; i < rows; i += static_cast<int>(blockDim.x))
      a(i, j) = N::over(a(i, j), h.scale) / h.divisor;
    __syncthreads();
    for (int first = j + 1; first < cols; first += 32) {
      const int k = first + lane;
      T sum = N::of(R(0));
      if (k < cols) {
        if (warp == 0) sum = a(j, k);
        for (int i = j + 1 + warp; i < rows; i += warps) sum = sum + N::conj(a(i, j)) * a(i, k);
      }
      part_re[thread] = N::real(sum);
      part_im[thread] = N::imag(sum);
      __syncthreads();
      R re = R(0);
      R im = R(0);
      for (int w = 0; w < warps; ++w) {
        re += part_re[w * 32 + lane];
        im += part_im[w * 32 + lane];
      }
      T factor;
      if constexpr (sizeof(T) == sizeof(R)) {
        factor = h.tau * re;
      } else {
        factor = N::conj(h.tau) * T{re, im};
      }
      if (k < cols) {
        if (warp == 0) a(j, k) = a(j, k) - factor;
        for (int i = j + 1 + warp; i < rows; i += warps) a(i, k) = a(i, k) - a(i, j) * factor;
      }
      __syncthreads();
    }
  }
  if constexpr (kShared) {
    __syncthreads();
    copy_matrix(global, a, rows, cols);
  }
}

template <class T>
__global__ __launch_bounds__(kLinalgPanel) void wy_leaf(const __grid_constant__ WyArgs args) {
  using N = Number<T>;
  using R = RealOf<T>;
  const int i = static_cast<int>(threadIdx.x);
  if (i >= args.n) return;
  const Matrix<T> gram(args.gram, blockIdx.x);
  const Matrix<T> t(args.t, blockIdx.x);
  const T* const tau = static_cast<const T*>(args.tau) + blockIdx.x * args.tau_batch;
  for (int j = 0; j < args.n; ++j) {
    T value = N::of(R(0));
    if (i == j) value = tau[j];
    if (i < j) {
      for (int k = i; k < j; ++k) value = value + t(i, k) * gram(k, j);
      value = N::scale(tau[j] * value, R(-1));
    }
    t(i, j) = value;
  }
}

}  // namespace gpk
