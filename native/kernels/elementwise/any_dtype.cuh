// Loads and stores of elements whose dtype is known only at run time.
#pragma once

#include "args/dtype.h"
#include "common/dtype.cuh"

namespace gpk {

#define GPK_EACH_DTYPE(X)         \
  X(kBool, bool)                  \
  X(kInt8, signed char)           \
  X(kInt16, short)                \
  X(kInt32, int)                  \
  X(kInt64, long long)            \
  X(kUInt8, unsigned char)        \
  X(kUInt16, unsigned short)      \
  X(kUInt32, unsigned int)        \
  X(kUInt64, unsigned long long)  \
  X(kFloat16, float16)            \
  X(kBFloat16, bfloat16)          \
  X(kFloat32, float)              \
  X(kFloat64, double)             \
  X(kComplex64, complex64)        \
  X(kComplex128, complex128)      \
  X(kFloat8E4M3FN, float8_e4m3fn) \
  X(kFloat8E5M2, float8_e5m2)

template <class C>
__device__ __forceinline__ C load_any(const void* base, unsigned char code, long long at) {
  switch (static_cast<DType>(code)) {
#define GPK_LOAD(kDType, T) \
  case DType::kDType: return convert<C>(static_cast<const T*>(base)[at]);
    GPK_EACH_DTYPE(GPK_LOAD)
#undef GPK_LOAD
    default: return C{};
  }
}

template <class V>
__device__ __forceinline__ void store_any(void* base, unsigned char code, long long at, V value) {
  switch (static_cast<DType>(code)) {
#define GPK_STORE(kDType, T) \
  case DType::kDType: static_cast<T*>(base)[at] = convert<T>(value); return;
    GPK_EACH_DTYPE(GPK_STORE)
#undef GPK_STORE
    default: return;
  }
}

#undef GPK_EACH_DTYPE

}  // namespace gpk
