// Arithmetic of an element type: accumulator, loads, multiply-adds, stores; for kernels with
// arbitrary strides. float16 and bfloat16 accumulate in float32 and round once, at the end.
// Integers wrap: they are unsigned here, which gives the same bits. bool is OR over AND. Strides
// are in elements.
#pragma once

#include "args/matmul.h"
#include "common/complex.cuh"
#include "common/dtype.cuh"

namespace gpk {

using namespace kernels;

template <class T>
struct AccOf {
  using type = T;
};
template <>
struct AccOf<bool> {
  using type = unsigned int;
};
template <>
struct AccOf<unsigned char> {
  using type = unsigned int;
};
template <>
struct AccOf<signed char> {  // for 32-bit results; narrow ones have the same bits unsigned
  using type = unsigned int;
};
template <>
struct AccOf<unsigned short> {
  using type = unsigned int;
};
template <>
struct AccOf<float16> {
  using type = float;
};
template <>
struct AccOf<bfloat16> {
  using type = float;
};

__device__ __forceinline__ void multiply_add(float& acc, float a, float b) {
  acc = fmaf(a, b, acc);
}
__device__ __forceinline__ void multiply_add(double& acc, double a, double b) {
  acc = fma(a, b, acc);
}
__device__ __forceinline__ void multiply_add(unsigned int& acc, unsigned int a, unsigned int b) {
  acc += a * b;
}
__device__ __forceinline__ void multiply_add(unsigned long long& acc, unsigned long long a,
                                             unsigned long long b) {
  acc += a * b;
}
template <class R>
__device__ __forceinline__ void multiply_add(Complex<R>& acc, Complex<R> a, Complex<R> b) {
  multiply_add(acc.re, a.re, b.re);
  multiply_add(acc.re, -a.im, b.im);
  multiply_add(acc.im, a.re, b.im);
  multiply_add(acc.im, a.im, b.re);
}

template <class T>
struct Arithmetic {
  using Acc = typename AccOf<T>::type;
  static __device__ __forceinline__ Acc load(T x) { return static_cast<Acc>(to_compute(x)); }
  static __device__ __forceinline__ void multiply_into(Acc& acc, Acc a, Acc b) {
    multiply_add(acc, a, b);
  }
  static __device__ __forceinline__ Acc sum(Acc x, Acc y) { return x + y; }
};

template <>
struct Arithmetic<bool> {
  using Acc = unsigned int;
  static __device__ __forceinline__ Acc load(bool x) { return x ? 1u : 0u; }
  static __device__ __forceinline__ void multiply_into(Acc& acc, Acc a, Acc b) { acc |= a & b; }
  static __device__ __forceinline__ Acc sum(Acc x, Acc y) { return x | y; }
};

// The accumulator of a lane `distance` above.
template <class R>
__device__ __forceinline__ Complex<R> shuffle_down(Complex<R> x, int distance) {
  return {__shfl_down_sync(0xffffffffu, x.re, distance),
          __shfl_down_sync(0xffffffffu, x.im, distance)};
}
template <class Acc>
__device__ __forceinline__ Acc shuffle_down(Acc x, int distance) {
  return __shfl_down_sync(0xffffffffu, x, distance);
}

// Where a batch's matrices begin.
struct BatchOffsets {
  long long a = 0, b = 0, c = 0;
};

__device__ __forceinline__ BatchOffsets batch_offsets(const MatmulArgs& args, long long batch) {
  BatchOffsets at;
#pragma unroll
  for (int d = MatmulArgs::kMaxBatchRank - 1; d >= 0; --d) {
    if (d >= args.batch_rank) continue;
    const long long rest = batch / args.batch_shape[d];
    const long long index = batch - rest * args.batch_shape[d];
    at.a += index * args.batch_a[d];
    at.b += index * args.batch_b[d];
    at.c += index * args.batch_c[d];
    batch = rest;
  }
  return at;
}

}  // namespace gpk
