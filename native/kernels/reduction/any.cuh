// Elements whose dtype is known only at run time. One switch covers several elements, to amortise
// its cost.
#pragma once

#include "common/dtype_code.cuh"
#include "reduction/value.cuh"

namespace gpk {

constexpr unsigned kIntegerCodes = (1u << (kCode<DType::kUInt64> + 1)) - 1;  // and bool
constexpr unsigned kRealCodes = (1u << (kCode<DType::kFloat64> + 1)) - 1;
constexpr unsigned kComplexCodes =
    (1u << kCode<DType::kComplex64>) | (1u << kCode<DType::kComplex128>);
constexpr unsigned kAllCodes = kRealCodes | kComplexCodes;

// The codes that convert<T> supports.
template <class T>
__device__ constexpr unsigned codes_of() {
  return 0;
}
template <>
__device__ constexpr unsigned codes_of<double>() {
  return kRealCodes;
}
template <>
__device__ constexpr unsigned codes_of<long long>() {
  return kIntegerCodes;
}
template <>
__device__ constexpr unsigned codes_of<unsigned long long>() {
  return 1u << kCode<DType::kUInt64>;
}
template <>
__device__ constexpr unsigned codes_of<complex128>() {
  return kComplexCodes;
}

template <class Op, class In, int kN>
__device__ __forceinline__ void load_as(const void* base, const long long (&at)[kN],
                                        typename Op::Value (&x)[kN]) {
  const In* in = static_cast<const In*>(base);
  In raw[kN];
#pragma unroll
  for (int i = 0; i < kN; ++i) raw[i] = in[at[i]];
#pragma unroll
  for (int i = 0; i < kN; ++i) x[i] = Op::value(raw[i]);
}

// x[i] = Op::value(element at[i] of `base`); Op::kCodes tells which codes can occur.
template <class Op, int kN>
__device__ __forceinline__ void load_any(const void* base, int code, const long long (&at)[kN],
                                         typename Op::Value (&x)[kN]) {
#define GPK_LOAD(kDType, In)                                                                    \
  case kCode<DType::kDType>:                                                                    \
    if constexpr ((Op::kCodes >> kCode<DType::kDType> & 1u) != 0) load_as<Op, In>(base, at, x); \
    break;
  switch (code) {
    GPK_LOAD(kBool, unsigned char)
    GPK_LOAD(kInt8, signed char)
    GPK_LOAD(kInt16, short)
    GPK_LOAD(kInt32, int)
    GPK_LOAD(kInt64, long long)
    GPK_LOAD(kUInt8, unsigned char)
    GPK_LOAD(kUInt16, unsigned short)
    GPK_LOAD(kUInt32, unsigned int)
    GPK_LOAD(kUInt64, unsigned long long)
    GPK_LOAD(kFloat16, float16)
    GPK_LOAD(kBFloat16, bfloat16)
    GPK_LOAD(kFloat32, float)
    GPK_LOAD(kFloat64, double)
    GPK_LOAD(kComplex64, complex64)
    GPK_LOAD(kComplex128, complex128)
    default: break;
  }
#undef GPK_LOAD
}

template <class T>
__device__ __forceinline__ void put(void* out, long long at, T x) {
  static_cast<T*>(out)[at] = x;
}

// Stores a result as the dtype `code` of its own class: real, integer (wraps) or complex.
__device__ __forceinline__ void store_any(void* out, long long at, double x, int code) {
  switch (code) {
    case kCode<DType::kFloat16>: put(out, at, convert<float16>(x)); break;
    case kCode<DType::kBFloat16>: put(out, at, convert<bfloat16>(x)); break;
    case kCode<DType::kFloat32>: put(out, at, static_cast<float>(x)); break;
    default: put(out, at, x); break;
  }
}

__device__ __forceinline__ void store_any(void* out, long long at, unsigned long long x, int code) {
  switch (code) {
    case kCode<DType::kBool>: put<unsigned char>(out, at, x != 0); break;
    case kCode<DType::kInt8>:
    case kCode<DType::kUInt8>: put(out, at, static_cast<unsigned char>(x)); break;
    case kCode<DType::kInt16>:
    case kCode<DType::kUInt16>: put(out, at, static_cast<unsigned short>(x)); break;
    case kCode<DType::kInt32>:
    case kCode<DType::kUInt32>: put(out, at, static_cast<unsigned>(x)); break;
    default: put(out, at, x); break;
  }
}

__device__ __forceinline__ void store_any(void* out, long long at, complex128 x, int code) {
  if (code == kCode<DType::kComplex64>) {
    put(out, at, complex64{static_cast<float>(x.re), static_cast<float>(x.im)});
  } else {
    put(out, at, x);
  }
}

__device__ __forceinline__ void store_any(void* out, long long at, float x, int code) {
  store_any(out, at, static_cast<double>(x), code);
}
__device__ __forceinline__ void store_any(void* out, long long at, long long x, int code) {
  store_any(out, at, static_cast<unsigned long long>(x), code);
}
__device__ __forceinline__ void store_any(void* out, long long at, int x, int code) {
  store_any(out, at, static_cast<long long>(x), code);
}

}  // namespace gpk
