// Elements of any real dtype as double and back, with a run-time dtype: for kernels bound
// elsewhere.
#pragma once

#include "common/dtype.cuh"
#include "common/dtype_code.cuh"

namespace gpk {

template <class T>
__device__ __forceinline__ double number_at(const void* data, long long i) {
  return static_cast<double>(to_compute(static_cast<const T*>(data)[i]));
}

__device__ __forceinline__ double load_number(const void* data, long long i, unsigned code) {
  switch (code) {
    case kCode<DType::kBool>:
    case kCode<DType::kUInt8>: return number_at<unsigned char>(data, i);
    case kCode<DType::kInt8>: return number_at<signed char>(data, i);
    case kCode<DType::kInt16>: return number_at<short>(data, i);
    case kCode<DType::kInt32>: return number_at<int>(data, i);
    case kCode<DType::kInt64>: return number_at<long long>(data, i);
    case kCode<DType::kUInt16>: return number_at<unsigned short>(data, i);
    case kCode<DType::kUInt32>: return number_at<unsigned>(data, i);
    case kCode<DType::kUInt64>: return number_at<unsigned long long>(data, i);
    case kCode<DType::kFloat16>: return number_at<float16>(data, i);
    case kCode<DType::kBFloat16>: return number_at<bfloat16>(data, i);
    case kCode<DType::kFloat32>: return number_at<float>(data, i);
    default: return number_at<double>(data, i);
  }
}

// double to float16 rounded once: the float is rounded to odd, so that the second rounding gives
// the same result as a single one.
__device__ __forceinline__ float odd_float(double x) {
  const float nearest = __double2float_rz(x);
  const bool inexact = static_cast<double>(nearest) != x && x == x;
  return inexact ? __uint_as_float(__float_as_uint(nearest) | 1u) : nearest;
}

template <class T>
__device__ __forceinline__ void put_number(void* data, long long i, T value) {
  static_cast<T*>(data)[i] = value;
}

// Rounds to nearest even; integers are truncated towards zero.
__device__ __forceinline__ void store_number(void* data, long long i, unsigned code, double x) {
  switch (code) {
    case kCode<DType::kBool>: put_number(data, i, x != 0.0); return;
    case kCode<DType::kInt8>:
      put_number(data, i, static_cast<signed char>(static_cast<int>(x)));
      return;
    case kCode<DType::kInt16>: put_number(data, i, static_cast<short>(static_cast<int>(x))); return;
    case kCode<DType::kInt32>: put_number(data, i, static_cast<int>(x)); return;
    case kCode<DType::kInt64>: put_number(data, i, static_cast<long long>(x)); return;
    case kCode<DType::kUInt8>:
      put_number(data, i, static_cast<unsigned char>(static_cast<int>(x)));
      return;
    case kCode<DType::kUInt16>:
      put_number(data, i, static_cast<unsigned short>(static_cast<int>(x)));
      return;
    case kCode<DType::kUInt32>:
      put_number(data, i, static_cast<unsigned>(static_cast<long long>(x)));
      return;
    case kCode<DType::kUInt64>: put_number(data, i, static_cast<unsigned long long>(x)); return;
    case kCode<DType::kFloat16>: put_number(data, i, from_compute<float16>(odd_float(x))); return;
    case kCode<DType::kBFloat16>: put_number(data, i, from_compute<bfloat16>(odd_float(x))); return;
    case kCode<DType::kFloat32>: put_number(data, i, static_cast<float>(x)); return;
    default: put_number(data, i, x);
  }
}

// x rounded to a floating dtype.
__device__ __forceinline__ double round_number(double x, unsigned code) {
  switch (code) {
    case kCode<DType::kFloat16>: return to_compute(from_compute<float16>(odd_float(x)));
    case kCode<DType::kBFloat16>: return to_compute(from_compute<bfloat16>(odd_float(x)));
    case kCode<DType::kFloat32>: return static_cast<double>(static_cast<float>(x));
    default: return x;
  }
}

}  // namespace gpk
