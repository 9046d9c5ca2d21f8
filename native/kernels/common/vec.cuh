// Vectorised accesses: Vec<T, N> is loaded and stored as one instruction of up to 16 bytes.
#pragma once

namespace gpk {

template <class T, int kN>
struct alignas(sizeof(T) * kN) Vec {
  T v[kN];
};

template <class T, int kN>
__device__ __forceinline__ Vec<T, kN> load_vec(const T* p) {
  return *reinterpret_cast<const Vec<T, kN>*>(p);
}

template <class T, int kN>
__device__ __forceinline__ void store_vec(T* p, const Vec<T, kN>& x) {
  *reinterpret_cast<Vec<T, kN>*>(p) = x;
}

}  // namespace gpk
