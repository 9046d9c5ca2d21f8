// out[i] = start + i * step for arange and linspace.
// Reals: y = i * step + start in float64, each operation rounded separately as NumPy does, then one
// rounding to T; y = i / div * step + start where a step would underflow to zero (div != 0).
// Element last_at (-1: none) is exactly `last`. Integers: modulo 2**64, then the low bytes. Complex
// numbers are two ramps. Grid: ceil(n / 256) blocks of 256, one element per thread.
#pragma once

#include "args/creation.h"
#include "common/dtype.cuh"

namespace gpk {

using namespace kernels;

__device__ __forceinline__ double ramp_at(const RealRamp& r, long long i, bool is_last) {
  if (is_last) return r.last;
  const double at = static_cast<double>(i);
  const double scaled = r.div != 0.0 ? __ddiv_rn(at, r.div) : at;
  return __dadd_rn(__dmul_rn(scaled, r.step), r.start);
}

template <class T>
__device__ __forceinline__ T round_to(double x) {
  return static_cast<T>(x);
}

template <>
__device__ __forceinline__ float16 round_to<float16>(double x) {
  float16 y;
  asm("cvt.rn.f16.f64 %0, %1;" : "=h"(y.bits) : "d"(x));
  return y;
}

template <>
__device__ __forceinline__ bfloat16 round_to<bfloat16>(double x) {
  return from_compute<bfloat16>(static_cast<float>(x));
}

template <class T>
struct RampStore {
  static __device__ __forceinline__ T run(double re, double) { return round_to<T>(re); }
};

template <>
struct RampStore<complex64> {
  static __device__ __forceinline__ complex64 run(double re, double im) {
    return {static_cast<float>(re), static_cast<float>(im)};
  }
};

template <>
struct RampStore<complex128> {
  static __device__ __forceinline__ complex128 run(double re, double im) { return {re, im}; }
};

template <class T>
__global__ void __launch_bounds__(256)
    real_ramp_kernel(T* out, RealRamp re, RealRamp im, long long last_at, long long n) {
  const long long i = static_cast<long long>(blockIdx.x) * 256 + threadIdx.x;
  if (i >= n) return;
  const bool is_last = i == last_at;
  out[i] = RampStore<T>::run(ramp_at(re, i, is_last), ramp_at(im, i, is_last));
}

// Rounded down to an integer of Word's width.
template <class Word>
__global__ void __launch_bounds__(256)
    floor_ramp_kernel(Word* out, RealRamp re, long long last_at, long long n) {
  const long long i = static_cast<long long>(blockIdx.x) * 256 + threadIdx.x;
  if (i >= n) return;
  const double y = floor(ramp_at(re, i, i == last_at));
  out[i] = y < 0.0 ? static_cast<Word>(static_cast<long long>(y))
                   : static_cast<Word>(static_cast<unsigned long long>(y));
}

template <class Word>
__global__ void __launch_bounds__(256)
    integer_ramp_kernel(Word* out, unsigned long long start, unsigned long long step, long long n) {
  const long long i = static_cast<long long>(blockIdx.x) * 256 + threadIdx.x;
  if (i < n) out[i] = static_cast<Word>(start + static_cast<unsigned long long>(i) * step);
}

}  // namespace gpk
