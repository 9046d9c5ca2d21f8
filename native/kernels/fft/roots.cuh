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

__device__ __forceinline__ float fused(float a, float b, float c) { return fmaf(a, b, c); }
__device__ __forceinline__ double fused(double a, double b, double c) { return fma(a, b, c); }

// 2 / kDen as the sum of two numbers, kDen < 2^24. The double's remainder is exact: its halves
// times kDen are.
template <class R, unsigned kDen>
struct HalfTurns {
  static constexpr double kStep = 2.0 / kDen;
  static constexpr double kTop = static_cast<double>(static_cast<float>(kStep));
  static constexpr double kLeft = (2.0 - kTop * kDen) - (kStep - kTop) * kDen;
  static constexpr R kHigh = static_cast<R>(kStep);
  static constexpr R kLow = static_cast<R>((kStep - static_cast<double>(kHigh)) + kLeft / kDen);
};

// The same for a constant den. Powers of two divide exactly; else the angle is a number and what
// its rounding lost, which is small enough for the derivative.
template <class R, unsigned kDen>
__device__ __forceinline__ Complex<R> unit_root_of(unsigned num) {
  if constexpr (kDen > (1u << 24)) {
    return unit_root<R>(num, kDen);
  } else {
    using Turns = HalfTurns<R, kDen>;
    const R count = static_cast<R>(num);
    const R angle = count * Turns::kHigh;
    R sine;
    R cosine;
    sine_cosine_pi(angle, &sine, &cosine);
    if constexpr ((kDen & (kDen - 1)) == 0) return {cosine, -sine};
    const R rest = static_cast<R>(3.141592653589793) *
                   fused(count, Turns::kLow, fused(count, Turns::kHigh, -angle));
    return {fused(-rest, sine, cosine), fused(-rest, cosine, -sine)};
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
  if (index < 65536) return unit_root<R>(index * index % (2 * n), 2 * n);
  const unsigned long long square = static_cast<unsigned long long>(index) * index;
  return unit_root<R>(static_cast<unsigned>(square % (2ull * n)), 2 * n);
}

}  // namespace gpk
