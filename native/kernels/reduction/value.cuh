// The value types of reductions: wider accumulator types, complex arithmetic, NaN tests, limits.
#pragma once

#include "common/dtype.cuh"

namespace gpk {

// Accumulator type for sums of T.
template <class T>
struct Wide {
  using type = T;
};
template <>
struct Wide<float> {
  using type = double;
};
template <>
struct Wide<int> {
  using type = long long;
};
template <>
struct Wide<complex64> {
  using type = complex128;
};

template <class T>
__device__ __forceinline__ T constant(double x) {
  return static_cast<T>(x);
}
template <>
__device__ __forceinline__ complex64 constant<complex64>(double x) {
  return {static_cast<float>(x), 0.0f};
}
template <>
__device__ __forceinline__ complex128 constant<complex128>(double x) {
  return {x, 0.0};
}

template <class T>
__device__ __forceinline__ T plus(T a, T b) {
  return a + b;
}
__device__ __forceinline__ complex64 plus(complex64 a, complex64 b) {
  return {a.re + b.re, a.im + b.im};
}
__device__ __forceinline__ complex128 plus(complex128 a, complex128 b) {
  return {a.re + b.re, a.im + b.im};
}

template <class T>
__device__ __forceinline__ T times(T a, T b) {
  return a * b;
}
__device__ __forceinline__ complex64 times(complex64 a, complex64 b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
__device__ __forceinline__ complex128 times(complex128 a, complex128 b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

template <class T>
__device__ __forceinline__ bool is_nan(T) {
  return false;
}
__device__ __forceinline__ bool is_nan(float x) { return x != x; }
__device__ __forceinline__ bool is_nan(double x) { return x != x; }
__device__ __forceinline__ bool is_nan(complex64 x) { return x.re != x.re || x.im != x.im; }
__device__ __forceinline__ bool is_nan(complex128 x) { return x.re != x.re || x.im != x.im; }

template <class T>
__device__ __forceinline__ bool is_nonzero(T x) {
  return to_compute(x) != 0;
}
__device__ __forceinline__ bool is_nonzero(complex64 x) { return x.re != 0 || x.im != 0; }
__device__ __forceinline__ bool is_nonzero(complex128 x) { return x.re != 0 || x.im != 0; }

// Complex numbers are ordered by real part, then imaginary part.
template <class T>
__device__ __forceinline__ bool less(T a, T b) {
  return a < b;
}
__device__ __forceinline__ bool less(complex128 a, complex128 b) {
  return a.re < b.re || (a.re == b.re && a.im < b.im);
}

// The identity of max (kMax) or min.
template <class T, bool kMax>
struct Worst;
template <bool kMax>
struct Worst<int, kMax> {
  static __device__ __forceinline__ int get() { return kMax ? -0x7fffffff - 1 : 0x7fffffff; }
};
template <bool kMax>
struct Worst<long long, kMax> {
  static __device__ __forceinline__ long long get() {
    return kMax ? -0x7fffffffffffffffll - 1 : 0x7fffffffffffffffll;
  }
};
template <bool kMax>
struct Worst<unsigned long long, kMax> {
  static __device__ __forceinline__ unsigned long long get() {
    return kMax ? 0ull : 0xffffffffffffffffull;
  }
};
template <bool kMax>
struct Worst<float, kMax> {
  static __device__ __forceinline__ float get() {
    return __int_as_float(kMax ? 0xff800000 : 0x7f800000);
  }
};
template <bool kMax>
struct Worst<double, kMax> {
  static __device__ __forceinline__ double get() {
    return __longlong_as_double(kMax ? 0xfff0000000000000ll : 0x7ff0000000000000ll);
  }
};
template <bool kMax>
struct Worst<complex128, kMax> {
  static __device__ __forceinline__ complex128 get() {
    return {Worst<double, kMax>::get(), Worst<double, kMax>::get()};
  }
};

// The larger (kMax) or smaller of two; NaN if either is.
template <bool kMax, class T>
__device__ __forceinline__ T extreme(T a, T b) {
  return (kMax ? less(b, a) : less(a, b)) || is_nan(a) ? a : b;
}
template <bool kMax>
__device__ __forceinline__ float extreme(float a, float b) {
  return kMax ? ptx::max_or_nan(a, b) : ptx::min_or_nan(a, b);
}

// Same, but NaN only when both are.
template <bool kMax, class T>
__device__ __forceinline__ T extreme_number(T a, T b) {
  return (kMax ? less(b, a) : less(a, b)) || is_nan(b) ? a : b;
}

// NaN where T has one.
template <class T>
__device__ __forceinline__ T not_a_number(T otherwise) {
  return otherwise;
}
__device__ __forceinline__ float not_a_number(float) { return __int_as_float(0x7fc00000); }
__device__ __forceinline__ double not_a_number(double) {
  return __longlong_as_double(0x7ff8000000000000ll);
}
__device__ __forceinline__ complex128 not_a_number(complex128) {
  return {not_a_number(0.0), not_a_number(0.0)};
}

}  // namespace gpk
