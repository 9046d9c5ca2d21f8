// What panels of two-sided reductions share: a Householder reflector H = I - tau v v^H that every
// block makes of a column, and sums over the rows of all blocks. Grid: x blocks of a matrix, y
// matrices. A block has the rows b, b + blocks, ..., a warp one of them at a time; every block has
// all of v. Launches of several blocks a matrix need all of them resident: they wait for each
// other. Norms in double: no scaling, for elements of about 1. Sums in a fixed order.
#pragma once

#include "common/vec.cuh"
#include "linalg/matrix.cuh"

namespace gpk {

template <class T>
struct ReflectorShared {
  static constexpr int kCols = 2 * kLinalgPanel;
  static constexpr int kGroups = kReflectorThreads / kCols;
  T groups[kGroups][kCols];
  T sums[kCols];
  T dots[kReflectorThreads / 32];
  T tau;
  double slots[kReflectorThreads / 32];
};

template <class T>
struct ReflectorPanel {
  using N = Number<T>;
  using R = RealOf<T>;
  using Shared = ReflectorShared<T>;
  static constexpr int kWarps = kReflectorThreads / 32;
  static constexpr int kCols = Shared::kCols;
  static constexpr int kVec = 16 / static_cast<int>(sizeof(T));

  Shared& shared;
  const int n, pitch;
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int warp = thread / 32;
  const int block = static_cast<int>(blockIdx.x);
  const int blocks = static_cast<int>(gridDim.x);
  unsigned* const arrivals;
  unsigned barriers;
  T *v, *column, *product, *parts;

  __device__ __forceinline__ ReflectorPanel(const ReflectorExchange& exchange, int order,
                                            Shared& memory)
      : shared(memory),
        n(order),
        pitch(exchange.pitch),
        arrivals(exchange.arrivals + blockIdx.y),
        barriers(static_cast<unsigned>(exchange.arrived)),
        column(static_cast<T*>(exchange.column) + blockIdx.y * static_cast<long long>(pitch)),
        product(static_cast<T*>(exchange.product) + blockIdx.y * static_cast<long long>(pitch)),
        parts(static_cast<T*>(exchange.parts) +
              blockIdx.y * gridDim.x * static_cast<long long>(kCols)) {
    v = exchange.reflector == nullptr
            ? reinterpret_cast<T*>(dynamic_shared())
            : static_cast<T*>(exchange.reflector) +
                  (blockIdx.y * gridDim.x + blockIdx.x) * static_cast<long long>(pitch);
    for (int i = thread; i < pitch; i += kReflectorThreads) v[i] = N::of(R(0));
  }

  // All blocks of the matrix: what they wrote is visible to all.
  __device__ __forceinline__ void sync() {
    __syncthreads();
    if (blocks == 1) return;
    ++barriers;
    if (thread == 0) {
      __threadfence();
      atomicAdd(arrivals, 1u);
      const unsigned target = barriers * static_cast<unsigned>(blocks);
      while (*static_cast<volatile unsigned*>(arrivals) < target) {
      }
      __threadfence();
    }
    __syncthreads();
  }

  // The first of the block's rows that is not above `row`.
  __device__ __forceinline__ int first_row(int row) const {
    return row <= block ? block : block + (row - block + blocks - 1) / blocks * blocks;
  }

  static __device__ __forceinline__ T number(double re, double im) {
    if constexpr (sizeof(T) == sizeof(R)) {
      return static_cast<R>(re);
    } else {
      return {static_cast<R>(re), static_cast<R>(im)};
    }
  }

  // v and shared.tau with H^H column = beta e_target; the same in every block. Elements of v before
  // `target` must be 0 but for the last one. Returns beta.
  __device__ __forceinline__ R make_reflector(int target) {
    constexpr double kTiny = sizeof(R) == 4 ? 1e-60 : 1e-280;
    const T alpha = column[target];
    double rest = 0.0;
#pragma unroll 4
    for (int i = target + 1 + thread; i < n; i += kReflectorThreads) {
      const T x = column[i];
      v[i] = x;
      rest += static_cast<double>(N::real(x)) * N::real(x) +
              static_cast<double>(N::imag(x)) * N::imag(x);
    }
    rest = reduce_block<double, false>(rest, shared.slots);
    const double re = N::real(alpha);
    const double im = N::imag(alpha);
    const double squares = re * re + im * im + rest;
    const bool zero = squares < kTiny;
    const bool identity = zero || (rest == 0.0 && im == 0.0);
    const double beta = identity ? (zero ? 0.0 : re) : -copysign(sqrt(squares), re);
    // 1 / (alpha - beta)
    const double top = re - beta;
    const double size = top * top + im * im;
    const double inverse_re = identity ? 0.0 : top / size;
    const double inverse_im = identity ? 0.0 : -im / size;
    for (int i = target + 1 + thread; i < n; i += kReflectorThreads) {
      const double x = N::real(v[i]);
      const double y = N::imag(v[i]);
      v[i] = number(x * inverse_re - y * inverse_im, x * inverse_im + y * inverse_re);
    }
    if (thread == 0) {
      if (target > 0) v[target - 1] = N::of(R(0));
      v[target] = N::of(R(1));
      shared.tau = identity ? N::of(R(0)) : number(-top / beta, -im / beta);
    }
    __syncthreads();
    return static_cast<R>(beta);
  }

  // A row times v, whose elements before `first` are 0; in every lane.
  __device__ __forceinline__ T times_v(const T* row, int first) const {
    T sum = N::of(R(0));
#pragma unroll 8
    for (int c = first / kVec * kVec + lane * kVec; c < pitch; c += 32 * kVec) {
      const Vec<T, kVec> x = load_vec<T, kVec>(row + c);
      const Vec<T, kVec> y = load_vec<T, kVec>(v + c);
#pragma unroll
      for (int i = 0; i < kVec; ++i) sum = sum + x.v[i] * y.v[i];
    }
    return sum_lanes(sum);
  }

  [[nodiscard]] __device__ __forceinline__ int col() const { return thread % kCols; }

  // p^H v of the block's rows `first` and below, to `parts`; `active`: column col() is wanted.
  __device__ __forceinline__ void publish_dots(const Matrix<T>& p, bool active, int first) {
    T sum = N::of(R(0));
    if (active)
      for (int r = first_row(first) + thread / kCols * blocks; r < n; r += Shared::kGroups * blocks)
        sum = sum + N::conj(p(r, col())) * v[r];
    shared.groups[thread / kCols][col()] = sum;
    __syncthreads();
    if (thread < kCols) parts[block * kCols + thread] = total_of_groups();
  }

  // The sums of all blocks' parts, to shared.sums.
  __device__ __forceinline__ void gather(bool active) {
    T sum = N::of(R(0));
    if (active)
#pragma unroll 8
      for (int b = thread / kCols; b < blocks; b += Shared::kGroups)
        sum = sum + parts[b * kCols + col()];
    shared.groups[thread / kCols][col()] = sum;
    __syncthreads();
    if (thread < kCols) shared.sums[thread] = total_of_groups();
    __syncthreads();
  }

  __device__ __forceinline__ T total_of_groups() const {
    T total = N::of(R(0));
    for (int g = 0; g < Shared::kGroups; ++g) total = total + shared.groups[g][thread];
    return total;
  }
};

}  // namespace gpk
