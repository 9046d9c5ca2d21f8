// Elements of any dtype as float32 in registers.
#pragma once

#include "common/dtype.cuh"
#include "common/vec.cuh"

namespace gpk {

// kV elements at `p` as float32, in loads of at most 16 bytes.
template <class T, int kV>
__device__ __forceinline__ void load_floats(const T* p, float (&x)[kV]) {
  constexpr int kStep = kV * sizeof(T) > 16 ? 16 / sizeof(T) : kV;
#pragma unroll
  for (int j = 0; j < kV; j += kStep) {
    const Vec<T, kStep> raw = load_vec<T, kStep>(p + j);
#pragma unroll
    for (int v = 0; v < kStep; ++v) x[j + v] = to_compute(raw.v[v]);
  }
}

template <class T, int kV>
__device__ __forceinline__ void store_floats(T* p, const float (&x)[kV]) {
  Vec<T, kV> raw;
#pragma unroll
  for (int v = 0; v < kV; ++v) raw.v[v] = convert<T>(x[v]);
  store_vec<T, kV>(p, raw);
}

}  // namespace gpk
