// Loads and stores of elements whose dtype is a code known at run time (the order of gpk::DType).
#pragma once

#include "common/dtype.cuh"

namespace gpk {

inline constexpr unsigned char kNumberCode = 255;

#define GPK_EACH_DTYPE(X)  \
  X(0, bool)               \
  X(1, signed char)        \
  X(2, short)              \
  X(3, int)                \
  X(4, long long)          \
  X(5, unsigned char)      \
  X(6, unsigned short)     \
  X(7, unsigned int)       \
  X(8, unsigned long long) \
  X(9, float16)            \
  X(10, bfloat16)          \
  X(11, float)             \
  X(12, double)            \
  X(13, complex64)         \
  X(14, complex128)        \
  X(15, float8_e4m3fn)     \
  X(16, float8_e5m2)

template <class C>
__device__ __forceinline__ C load_any(const void* base, unsigned char code, long long at) {
  switch (code) {
#define GPK_LOAD(number, T) \
  case number: return convert<C>(static_cast<const T*>(base)[at]);
    GPK_EACH_DTYPE(GPK_LOAD)
#undef GPK_LOAD
    default: return C{};
  }
}

template <class V>
__device__ __forceinline__ void store_any(void* base, unsigned char code, long long at, V value) {
  switch (code) {
#define GPK_STORE(number, T) \
  case number: static_cast<T*>(base)[at] = convert<T>(value); return;
    GPK_EACH_DTYPE(GPK_STORE)
#undef GPK_STORE
    default: return;
  }
}

#undef GPK_EACH_DTYPE

}  // namespace gpk
