// Codes of packed weights to numbers and back, one at a time. Rounding is to nearest even, beyond
// the largest value saturated.
#pragma once

#include "args/quantize.h"
#include "common/dtype.cuh"

namespace gpk {

using namespace kernels;

// The quantiles of bitsandbytes' nf4.
__device__ constexpr float kNf4Values[16] = {-1.0f,
                                             -0.6961928009986877f,
                                             -0.5250730514526367f,
                                             -0.39491748809814453f,
                                             -0.28444138169288635f,
                                             -0.18477343022823334f,
                                             -0.09105003625154495f,
                                             0.0f,
                                             0.07958029955625534f,
                                             0.16093020141124725f,
                                             0.24611230194568634f,
                                             0.33791524171829224f,
                                             0.44070982933044434f,
                                             0.5626170039176941f,
                                             0.7229568362236023f,
                                             1.0f};

__device__ __forceinline__ float nf4_value(unsigned code) { return kNf4Values[code]; }

__device__ __forceinline__ float e2m1_value(unsigned code) {
  const unsigned magnitude = code & 7u;
  // Exponent bias 1 against float32's 127; a multiply normalises the subnormal.
  const float value = __uint_as_float(magnitude << 22) * 0x1p126f;
  return code & 8u ? -value : value;
}

__device__ __forceinline__ float e8m0_value(unsigned code) {
  return __uint_as_float(code == 0 ? 0x00400000u : code << 23);
}

// Exact in float32, zero points not subtracted.
template <int kCode>
__device__ __forceinline__ float decode(unsigned bits) {
  if constexpr (kCode == kCodeInt4) return static_cast<float>(static_cast<int>(bits ^ 8u) - 8);
  if constexpr (kCode == kCodeUint4 || kCode == kCodeUint8) return static_cast<float>(bits);
  if constexpr (kCode == kCodeInt8)
    return static_cast<float>(static_cast<int>(bits ^ 0x80u) - 0x80);
  if constexpr (kCode == kCodeE4M3)
    return to_compute(float8_e4m3fn{static_cast<unsigned char>(bits)});
  if constexpr (kCode == kCodeE5M2)
    return to_compute(float8_e5m2{static_cast<unsigned char>(bits)});
  if constexpr (kCode == kCodeE2M1) return e2m1_value(bits);
  if constexpr (kCode == kCodeNf4) return nf4_value(bits);
}

__device__ __forceinline__ unsigned encode_e2m1(float x) {
  const float a = fabsf(x);
  // Halfway between neighbours: to the even code.
  const unsigned code = (a > 0.25f ? 1u : 0u) + (a >= 0.75f ? 1u : 0u) + (a > 1.25f ? 1u : 0u) +
                        (a >= 1.75f ? 1u : 0u) + (a > 2.5f ? 1u : 0u) + (a >= 3.5f ? 1u : 0u) +
                        (a > 5.0f ? 1u : 0u);
  return code | (__float_as_uint(x) >> 31) << 3;
}

__device__ __forceinline__ unsigned encode_nf4(float x) {
  unsigned code = 0;
#pragma unroll
  for (unsigned i = 0; i < 15; ++i) code += x > 0.5f * (nf4_value(i) + nf4_value(i + 1)) ? 1u : 0u;
  return code;
}

// x in units of the scale.
template <int kCode>
__device__ __forceinline__ unsigned encode(float x, float zero) {
  if constexpr (kCode == kCodeInt4)
    return static_cast<unsigned>(__float2int_rn(fminf(fmaxf(x, -8.0f), 7.0f))) & 15u;
  if constexpr (kCode == kCodeUint4)
    return static_cast<unsigned>(__float2int_rn(fminf(fmaxf(rintf(x) + zero, 0.0f), 15.0f)));
  if constexpr (kCode == kCodeInt8)
    return static_cast<unsigned>(__float2int_rn(fminf(fmaxf(x, -128.0f), 127.0f))) & 255u;
  if constexpr (kCode == kCodeUint8)
    return static_cast<unsigned>(__float2int_rn(fminf(fmaxf(rintf(x) + zero, 0.0f), 255.0f)));
  if constexpr (kCode == kCodeE4M3)
    return convert<float8_e4m3fn>(fminf(fmaxf(x, -448.0f), 448.0f)).bits;
  if constexpr (kCode == kCodeE5M2)
    return convert<float8_e5m2>(fminf(fmaxf(x, -57344.0f), 57344.0f)).bits;
  if constexpr (kCode == kCodeE2M1) return encode_e2m1(x);
  if constexpr (kCode == kCodeNf4) return encode_nf4(x);
}

// The scale of group `at` of all groups; null tensor_scale: 1.
__device__ __forceinline__ float group_scale(const QuantizeArgs& args, long long at) {
  if (args.scale_code == kScaleFloat) return static_cast<const float*>(args.scales)[at];
  const unsigned code = static_cast<const unsigned char*>(args.scales)[at];
  if (args.scale_code == kScaleE8M0) return e8m0_value(code);
  const float scale = to_compute(float8_e4m3fn{static_cast<unsigned char>(code)});
  return args.tensor_scale != nullptr ? scale * *args.tensor_scale : scale;
}

}  // namespace gpk
