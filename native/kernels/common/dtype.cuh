// Element types without CUDA headers: storage structs, conversions to and from the type that
// arithmetic is done in (Compute<T>), and exact layouts shared with the host.
#pragma once

namespace gpk {

struct alignas(2) float16 {
  unsigned short bits;
};

struct alignas(2) bfloat16 {
  unsigned short bits;
};

struct alignas(8) complex64 {
  float re, im;
};

struct alignas(16) complex128 {
  double re, im;
};

__device__ __forceinline__ float to_compute(float16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}

__device__ __forceinline__ float to_compute(bfloat16 x) {
  return __uint_as_float(static_cast<unsigned>(x.bits) << 16);
}

template <class T>
__device__ __forceinline__ T to_compute(T x) {
  return x;
}

// Rounds to nearest even.
template <class T>
struct FromCompute {
  template <class C>
  static __device__ __forceinline__ T run(C x) {
    return static_cast<T>(x);
  }
};

template <>
struct FromCompute<float16> {
  static __device__ __forceinline__ float16 run(float x) {
    float16 y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
  }
};

template <>
struct FromCompute<bfloat16> {
  static __device__ __forceinline__ bfloat16 run(float x) {
    bfloat16 y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
  }
};

template <class T, class C>
__device__ __forceinline__ T from_compute(C x) {
  return FromCompute<T>::run(x);
}

}  // namespace gpk
