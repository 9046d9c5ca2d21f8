// Casts between four-bit types, packed two per byte (the even element in the low nibble), and the
// other dtypes, both contiguous. One thread per byte. Integers keep their low four bits; floats to
// integers truncate; to float4_e2m1fn rounds to nearest even, saturating at 6. It has no NaN: NaN
// becomes -0.0, as in ml_dtypes.
#pragma once

#include "args/elementwise.h"
#include "elementwise/any_dtype.cuh"

namespace gpk {

using namespace kernels;

// Magnitudes 0, 0.5, 1, 1.5, 2, 3, 4, 6 in bits 0 to 2, the sign in bit 3.
__device__ __forceinline__ float from_float4(unsigned code) {
  const unsigned magnitude = code & 7u;
  const float value = magnitude < 2u ? 0.5f * static_cast<float>(magnitude)
                                     : __uint_as_float((magnitude + 252u) << 22);
  return (code & 8u) != 0 ? -value : value;
}

__device__ __forceinline__ unsigned to_float4(float x) {
  const unsigned sign = __float_as_uint(x) >> 28 & 8u;
  const float a = fabsf(x);
  unsigned code;
  if (a < 2.0f) {
    code = static_cast<unsigned>(__float2int_rn(2.0f * a));
  } else if (a < 4.0f) {
    code = static_cast<unsigned>(__float2int_rn(a)) + 2u;
  } else {
    code = a <= 5.0f ? 6u : 7u;
  }
  return x != x ? sign ^ 8u : sign | code;
}

__device__ __forceinline__ double unpack_value(unsigned code, PackedKind kind) {
  if (kind == PackedKind::kFloat) return from_float4(code);
  if (kind == PackedKind::kUnsigned) return code;
  return static_cast<int>(code << 28) >> 28;
}

// bool and integers separately: a double cannot represent all of them.
__device__ __forceinline__ unsigned pack_one(const void* in, unsigned char dtype, PackedKind kind,
                                             long long at) {
  constexpr auto kLastInteger = static_cast<unsigned char>(DType::kUInt64);
  if (kind == PackedKind::kFloat) return to_float4(load_any<float>(in, dtype, at));
  if (dtype <= kLastInteger) return static_cast<unsigned>(load_any<long long>(in, dtype, at)) & 15u;
  return static_cast<unsigned>(static_cast<long long>(load_any<double>(in, dtype, at))) & 15u;
}

__global__ void unpack4(const unsigned char* in, void* out, unsigned char dtype, PackedKind kind,
                        long long n) {
  const long long at = 2 * (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x);
  if (at >= n) return;
  const unsigned byte = in[at / 2];
  store_any(out, dtype, at, unpack_value(byte & 15u, kind));
  if (at + 1 < n) store_any(out, dtype, at + 1, unpack_value(byte >> 4, kind));
}

__global__ void pack4(const void* in, unsigned char* out, unsigned char dtype, PackedKind kind,
                      long long n) {
  const long long at = 2 * (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x);
  if (at >= n) return;
  const unsigned low = pack_one(in, dtype, kind, at);
  const unsigned high = at + 1 < n ? pack_one(in, dtype, kind, at + 1) : 0u;
  out[at / 2] = static_cast<unsigned char>(low | high << 4);
}

}  // namespace gpk
