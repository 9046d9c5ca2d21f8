// out[i] = op(a[i], b[i]), or op(a[i], scalar) with kScalar; arrays contiguous, n elements.
// kVec elements per access: 16 bytes when all pointers are 16-byte aligned, else 1.
// Each block owns kBlock * kUnroll * kVec consecutive elements: every thread has kUnroll
// independent accesses in flight before the first use. Grid: ceil(n / elements per block).
// float16 and bfloat16 compute in float32 and round once. Integers wrap; bool is or / and.
#pragma once

#include "common/dtype.cuh"
#include "common/vec.cuh"

namespace gpk {

struct Add {
  template <class C>
  __device__ __forceinline__ C operator()(C a, C b) const {
    return a + b;
  }
  __device__ __forceinline__ bool operator()(bool a, bool b) const { return a || b; }
  __device__ __forceinline__ complex64 operator()(complex64 a, complex64 b) const {
    return {a.re + b.re, a.im + b.im};
  }
  __device__ __forceinline__ complex128 operator()(complex128 a, complex128 b) const {
    return {a.re + b.re, a.im + b.im};
  }
};

struct Mul {
  template <class C>
  __device__ __forceinline__ C operator()(C a, C b) const {
    return a * b;
  }
  __device__ __forceinline__ bool operator()(bool a, bool b) const { return a && b; }
  __device__ __forceinline__ complex64 operator()(complex64 a, complex64 b) const {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
  __device__ __forceinline__ complex128 operator()(complex128 a, complex128 b) const {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
};

template <class Op, class T>
__device__ __forceinline__ T apply(T a, T b) {
  return from_compute<T>(Op()(to_compute(a), to_compute(b)));
}

template <class T, class Op, int kVec, bool kScalar, int kBlock, int kUnroll>
__global__ void __launch_bounds__(kBlock)
    binary_kernel(const T* a, const T* b, T scalar, T* out, long long n) {
  const long long first =
      (static_cast<long long>(blockIdx.x) * kBlock * kUnroll + threadIdx.x) * kVec;
  constexpr int kStep = kBlock * kVec;
  if (first + static_cast<long long>(kUnroll - 1) * kStep + kVec <= n) {
    Vec<T, kVec> x[kUnroll];
    Vec<T, kVec> y[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      x[u] = load_vec<T, kVec>(a + first + u * kStep);
      if constexpr (!kScalar) y[u] = load_vec<T, kVec>(b + first + u * kStep);
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
#pragma unroll
      for (int i = 0; i < kVec; ++i) {
        if constexpr (kScalar) {
          x[u].v[i] = apply<Op>(x[u].v[i], scalar);
        } else {
          x[u].v[i] = apply<Op>(x[u].v[i], y[u].v[i]);
        }
      }
      store_vec<T, kVec>(out + first + u * kStep, x[u]);
    }
    return;
  }
  for (int u = 0; u < kUnroll; ++u) {
    for (int i = 0; i < kVec; ++i) {
      const long long at = first + u * kStep + i;
      if (at < n) out[at] = apply<Op>(a[at], kScalar ? scalar : b[at]);
    }
  }
}

}  // namespace gpk
