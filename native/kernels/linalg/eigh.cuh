// A = V diag(w) V^H of Hermitian matrices by two-sided Jacobi rotations in parallel (round-robin)
// order, a block for each matrix of the stack (grid x), A and V in dynamic shared memory (rows of
// odd pitch). Rotations are skipped below epsilon / 4, which is relative to a matrix scaled to a
// largest element in [1/2, 2), or below epsilon times the geometric mean of both diagonal elements
// (`relative`, for Gram matrices: small eigenvalues are then as accurate as large ones).
// Eigenvalues in order; equal ones by column. Ends after a sweep without a rotation. A rotation is
// applied as a correction by 1 - cosine: 1 / sqrt(1 + t^2) is too large on average where t^2 is
// near epsilon, and the norms of V's columns grow with every sweep.
#pragma once

#include "linalg/matrix.cuh"

namespace gpk {

inline constexpr int kEighPairs = kLinalgLeaf / 2;
inline constexpr int kEighMaxSweeps = 40;

template <class T>
struct Rotations {
  RealOf<T> versine[kEighPairs];  // 1 - cosine
  RealOf<T> sine_re[kEighPairs];
  RealOf<T> sine_im[kEighPairs];
  int p[kEighPairs];  // < 0: none
  int q[kEighPairs];

  // Sine times the phase of a(p, q).
  __device__ __forceinline__ T sine(int pair) const {
    if constexpr (sizeof(T) == sizeof(RealOf<T>)) {
      return sine_re[pair];
    } else {
      return {sine_re[pair], sine_im[pair]};
    }
  }
};

// What element (p, q) is measured by; `least` is 0 unless thresholds are relative.
template <class T>
__device__ __forceinline__ RealOf<T> eigh_unit(const Matrix<T>& a, int p, int q, RealOf<T> least) {
  using N = Number<T>;
  using R = RealOf<T>;
  if (least == R(0)) return R(1);
  const R mean = sqrt(fabs(N::real(a(p, p)))) * sqrt(fabs(N::real(a(q, q))));
  return mean > least ? mean : least;
}

// (2 epsilon)^2 of the largest diagonal element: columns of a Gram matrix with smaller norms are
// rounding errors. Epsilon times it is a normal number.
template <class T>
__device__ __forceinline__ RealOf<T> least_unit(const Matrix<T>& a, int n, RealOf<T>* slots) {
  using R = RealOf<T>;
  R largest = R(0);
  for (int i = static_cast<int>(threadIdx.x); i < n; i += kLinalgThreads)
    largest = larger(largest, static_cast<R>(fabs(Number<T>::real(a(i, i)))));
  largest = reduce_block<R, true>(largest, slots);
  const R unit = R(4) * kEpsilon<R> * kEpsilon<R> * largest;
  const R normal = sizeof(R) == 4 ? R(0x1p-96) : R(0x1p-960);
  return unit > normal ? unit : normal;
}

// The rotation of pair `pair` in round `round` of a tournament of `players` (even) columns. Returns
// whether there is one.
template <class T>
__device__ __forceinline__ bool make_rotation(const Matrix<T>& a, int n, int players, int round,
                                              int pair, RealOf<T> least, Rotations<T>& out) {
  using N = Number<T>;
  using R = RealOf<T>;
  const int last = players - 1;
  const int x = pair == 0 ? last : (round + pair) % last;
  const int y = pair == 0 ? round : (round + last - pair) % last;
  const int p = x < y ? x : y;
  const int q = x < y ? y : x;
  out.p[pair] = -1;
  if (q >= n) return false;
  const T element = a(p, q);
  const R size = N::magnitude(element);
  const R tolerance = kEpsilon<R> * (least > R(0) ? eigh_unit(a, p, q, least) : R(0.25));
  if (!(size > tolerance)) return false;
  const R theta = (N::real(a(q, q)) - N::real(a(p, p))) / (R(2) * size);
  const R tangent = copysign(R(1) / (fabs(theta) + sqrt(R(1) + theta * theta)), theta);
  const R secant = sqrt(R(1) + tangent * tangent);
  const T sine = N::scale(N::over(element, size), tangent / secant);
  out.p[pair] = p;
  out.q[pair] = q;
  out.versine[pair] = tangent * tangent / (secant * (R(1) + secant));
  out.sine_re[pair] = N::real(sine);
  out.sine_im[pair] = N::imag(sine);
  return true;
}

// Columns p and q of all rows.
template <class T>
__device__ __forceinline__ void rotate_columns(const Matrix<T>& m, int n, int pairs,
                                               const Rotations<T>& rotations) {
  using N = Number<T>;
  for (int at = static_cast<int>(threadIdx.x); at < n * pairs; at += kLinalgThreads) {
    const int pair = at / n;
    const int i = at % n;
    const int p = rotations.p[pair];
    if (p < 0) continue;
    const int q = rotations.q[pair];
    const T x = m(i, p);
    const T y = m(i, q);
    const T sine = rotations.sine(pair);
    m(i, p) = x - (N::scale(x, rotations.versine[pair]) + N::conj(sine) * y);
    m(i, q) = y + (sine * x - N::scale(y, rotations.versine[pair]));
  }
}

// Rows p and q of all columns; what they annihilate becomes exactly 0, the diagonal stays real.
template <class T>
__device__ __forceinline__ void rotate_rows(const Matrix<T>& m, int n, int pairs,
                                            const Rotations<T>& rotations) {
  using N = Number<T>;
  using R = RealOf<T>;
  for (int at = static_cast<int>(threadIdx.x); at < n * pairs; at += kLinalgThreads) {
    const int pair = at / n;
    const int i = at % n;
    const int p = rotations.p[pair];
    if (p < 0) continue;
    const int q = rotations.q[pair];
    const T x = m(p, i);
    const T y = m(q, i);
    const T sine = rotations.sine(pair);
    T above = x - (N::scale(x, rotations.versine[pair]) + sine * y);
    T below = y + (N::conj(sine) * x - N::scale(y, rotations.versine[pair]));
    if (i == p) {
      above = N::of(N::real(above));
      below = N::of(R(0));
    }
    if (i == q) {
      above = N::of(R(0));
      below = N::of(N::real(below));
    }
    m(p, i) = above;
    m(q, i) = below;
  }
}

template <class T>
__device__ __forceinline__ RealOf<T> largest_off_diagonal(const Matrix<T>& a, int n,
                                                          RealOf<T> least, RealOf<T>* slots) {
  using R = RealOf<T>;
  R off = R(0);
  for (int at = static_cast<int>(threadIdx.x); at < n * n; at += kLinalgThreads) {
    const int p = at / n;
    const int q = at % n;
    if (p >= q) continue;
    const R unit = eigh_unit(a, p, q, least);
    const R size = Number<T>::magnitude(a(p, q));
    if (size / unit > off) off = size / unit;
  }
  return reduce_block<R, true>(off, slots);
}

template <class T>
__global__ __launch_bounds__(kLinalgThreads) void eigh_leaf(const __grid_constant__ EighArgs args) {
  using N = Number<T>;
  using R = RealOf<T>;
  __shared__ Rotations<T> rotations;
  __shared__ R slots[kLinalgThreads / 32];
  __shared__ int rotated;
  const int n = args.n;
  const int thread = static_cast<int>(threadIdx.x);
  const Matrix<T> a(reinterpret_cast<T*>(dynamic_shared()), odd_pitch(n), 1);
  const Matrix<T> v(a.data + n * odd_pitch(n), odd_pitch(n), 1);
  copy_matrix(a, Matrix<T>(args.a, blockIdx.x), n, n);
  for (int at = thread; at < n * n; at += kLinalgThreads)
    v(at / n, at % n) = N::of(at / n == at % n ? R(1) : R(0));
  __syncthreads();
  const R least = args.relative != 0 ? least_unit(a, n, slots) : R(0);
  const R off = largest_off_diagonal(a, n, least, slots);
  if (thread == 0) static_cast<R*>(args.off)[blockIdx.x] = off;
  const int players = n + n % 2;
  const int pairs = players / 2;
  int sweep = 0;
  for (; sweep < kEighMaxSweeps; ++sweep) {
    if (thread == 0) rotated = 0;
    __syncthreads();
    for (int round = 0; round < players - 1; ++round) {
      if (thread < pairs && make_rotation(a, n, players, round, thread, least, rotations))
        atomicAdd(&rotated, 1);
      __syncthreads();
      rotate_columns(a, n, pairs, rotations);
      rotate_columns(v, n, pairs, rotations);
      __syncthreads();
      rotate_rows(a, n, pairs, rotations);
      __syncthreads();
    }
    const int count = rotated;
    __syncthreads();  // read before it is reset
    if (count == 0) break;
  }
  if (thread == 0 && sweep == kEighMaxSweeps && args.status[blockIdx.x] == 0)
    args.status[blockIdx.x] = 1;
  const Matrix<T> out(args.v, blockIdx.x);
  R* const w = static_cast<R*>(args.w) + blockIdx.x * args.w_batch;
  for (int at = thread; at < n * n; at += kLinalgThreads) {
    const int i = at / n;
    const int j = at % n;
    const R value = N::real(a(j, j));
    int place = 0;
    for (int k = 0; k < n; ++k) {
      const R other = N::real(a(k, k));
      const bool before = args.descending ? other > value : other < value;
      if (before || (other == value && k < j)) ++place;
    }
    if (i == 0) w[place] = value;
    out(i, place) = v(i, j);
  }
}

}  // namespace gpk
