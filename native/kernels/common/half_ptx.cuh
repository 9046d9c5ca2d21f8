// Conversions between float32, float64 and the bits of 16-bit floats: one instruction each, to
// nearest even; extremes that propagate NaN; and a barrier for the optimiser. Tests on the host
// replace this file (tests/native/host_cuda).
#pragma once

namespace gpk::ptx {

__device__ __forceinline__ float from_half(unsigned short bits) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(bits));
  return y;
}

__device__ __forceinline__ unsigned short to_half(double x) {
  unsigned short bits;
  asm("cvt.rn.f16.f64 %0, %1;" : "=h"(bits) : "d"(x));
  return bits;
}

__device__ __forceinline__ unsigned short to_half(float x) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}

__device__ __forceinline__ unsigned short to_bfloat(float x) {
  unsigned short bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}

// Two of them in one word.
__device__ __forceinline__ unsigned to_halves(float low, float high) {
  unsigned bits;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}

__device__ __forceinline__ unsigned to_bfloats(float low, float high) {
  unsigned bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}

// a * b + c of two 16-bit floats in a word, rounded once.
__device__ __forceinline__ unsigned fma_halves(unsigned a, unsigned b, unsigned c) {
  unsigned y;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(y) : "r"(a), "r"(b), "r"(c));
  return y;
}

__device__ __forceinline__ unsigned fma_bfloats(unsigned a, unsigned b, unsigned c) {
  unsigned y;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(y) : "r"(a), "r"(b), "r"(c));
  return y;
}

// NaN if either is; 0 is larger than -0.
__device__ __forceinline__ float max_or_nan(float a, float b) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}

__device__ __forceinline__ float min_or_nan(float a, float b) {
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}

}  // namespace gpk::ptx

namespace gpk {

// The same value, of which the compiler knows nothing.
__device__ __forceinline__ void hide(unsigned& word) { asm volatile("" : "+r"(word)); }

}  // namespace gpk
