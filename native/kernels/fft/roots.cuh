// Roots of unity, evaluated where they are needed: no tables, so nothing is allocated or uploaded,
// and calls can be captured. The angle is reduced to an eighth of a turn in integers, exactly, so
// that errors stay below one ulp of 1 for every length.
#pragma once

#include "common/complex.cuh"

namespace gpk {

template <class R>
__device__ __forceinline__ Complex<R> times_minus_i(Complex<R> a) {
  return {a.im, -a.re};
}

template <class R>
__device__ __forceinline__ Complex<R> conjugate(Complex<R> a) {
  return {a.re, -a.im};
}

__device__ __forceinline__ void sine_cosine_pi(float x, float* sine, float* cosine) {
  sincospif(x, sine, cosine);
}
__device__ __forceinline__ void sine_cosine_pi(double x, double* sine, double* cosine) {
  sincospi(x, sine, cosine);
}

// e^(-2 pi i num / den), num < den <= 2^31.
template <class R>
__device__ __forceinline__ Complex<R> unit_root(unsigned num, unsigned den) {
  const bool upper = num > den - num;
  const unsigned half = 2 * (upper ? den - num : num);  // pi half / den, up to pi
  const bool left = half > den - half;
  const unsigned quarter = 2 * (left ? den - half : half);  // pi quarter / (2 den), up to pi / 2
  const bool steep = quarter > den - quarter;
  const unsigned eighth = steep ? den - quarter : quarter;
  R sine;
  R cosine;
  sine_cosine_pi(R(0.5) * (static_cast<R>(eighth) / static_cast<R>(den)), &sine, &cosine);
  const R re = steep ? sine : cosine;
  const R im = steep ? cosine : sine;
  return {left ? -re : re, upper ? im : -im};
}

// The same for a constant den. Powers of two divide exactly.
template <class R, unsigned kDen>
__device__ __forceinline__ Complex<R> unit_root_of(unsigned num) {
  if constexpr ((kDen & (kDen - 1)) == 0 && kDen <= (1u << 24)) {
    R sine;
    R cosine;
    sine_cosine_pi(static_cast<R>(num) * (R(2) / static_cast<R>(kDen)), &sine, &cosine);
    return {cosine, -sine};
  } else {
    return unit_root<R>(num, kDen);
  }
}

__device__ constexpr bool is_power_of_two(int x) { return (x & (x - 1)) == 0; }
__device__ constexpr int highest_bit(int x) {
  int bit = 1;
  while (2 * bit <= x) bit *= 2;
  return bit;
}

// w[j] = e^(-2 pi i j num / den) for j < kR, num < den: the powers of two are evaluated, the others
// are products of up to four of them, so that errors do not grow with j.
template <class R, int kR>
__device__ __forceinline__ void root_powers(Complex<R> (&w)[kR], unsigned num, unsigned den) {
  w[0] = {R(1), R(0)};
#pragma unroll
  for (int j = 1; j < kR; ++j) {
    if (is_power_of_two(j)) {
      w[j] = unit_root<R>(num, den);
      num = num >= den - num ? num - (den - num) : 2 * num;
    } else {
      w[j] = w[highest_bit(j)] * w[j - highest_bit(j)];
    }
  }
}

// The same for a constant den, with num * kR <= kDen.
template <class R, int kR, unsigned kDen>
__device__ __forceinline__ void root_powers_of(Complex<R> (&w)[kR], unsigned num) {
  w[0] = {R(1), R(0)};
#pragma unroll
  for (int j = 1; j < kR; ++j) {
    w[j] = is_power_of_two(j) ? unit_root_of<R, kDen>(num * static_cast<unsigned>(j))
                              : w[highest_bit(j)] * w[j - highest_bit(j)];
  }
}

// e^(-pi i index^2 / n): Bluestein's chirp.
template <class R>
__device__ __forceinline__ Complex<R> chirp(unsigned index, unsigned n) {
  const unsigned long long square = static_cast<unsigned long long>(index) * index;
  return unit_root<R>(static_cast<unsigned>(square % (2ull * n)), 2 * n);
}

}  // namespace gpk
