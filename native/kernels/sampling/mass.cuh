// The probability of a token as an integer. With d = (largest - x) / temperature, its mass is
// exp(-d) in units of 2^-40, and its key is d in units of 2^-17. Integers add up to the same sum in
// any order, so a result depends neither on the grid nor on the order of atomics; every step here
// is defined bit by bit and repeated in pygpukit/_reference/sampling.py. Tokens 32 or more below
// the largest have no key: their mass is 0.
#pragma once

namespace gpk {

using Mass = unsigned long long;

inline constexpr unsigned kNumKeys = 1u << 22;

__device__ __forceinline__ float distance(float x, float largest, float inverse_temperature) {
  // Equal infinities have distance 0.
  return x == largest ? 0.0f : __fmul_rn(__fsub_rn(largest, x), inverse_temperature);
}

// Below kNumKeys for d < 32. 32 + d has a fixed exponent, and d in its mantissa.
__device__ __forceinline__ unsigned key_of(float d) {
  return (__float_as_uint(__fadd_rn(d, 32.0f)) - 0x42000000u) >> 1;
}

// exp(-d) * 2^40 for d < 32, truncated.
__device__ __forceinline__ Mass mass_of(float d) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const float z = __fmul_rn(d, -1.44269504f);
  const float rounded = __fadd_rn(z, kRound);
  const float f = __fsub_rn(z, __fsub_rn(rounded, kRound));
  float p = 1.53707049e-4f;  // 2^f for |f| <= 1/2, within 8e-8
  p = fmaf(p, f, 1.33998482e-3f);
  p = fmaf(p, f, 9.61837359e-3f);
  p = fmaf(p, f, 5.55032901e-2f);
  p = fmaf(p, f, 2.40226477e-1f);
  p = fmaf(p, f, 6.93147182e-1f);
  p = fmaf(p, f, 1.0f);
  const unsigned n = __float_as_uint(rounded) - __float_as_uint(kRound);
  const unsigned bits = __float_as_uint(p) + (n << 23);  // p * 2^n <= 1
  const Mass mantissa = (bits & 0x7fffffu) | 0x800000u;
  return mantissa << 17 >> (127u - (bits >> 23));
}

// Larger for larger x, and for lower indices of equal ones; x is no NaN.
__device__ __forceinline__ Mass rank_of(float x, int index) {
  const unsigned bits = __float_as_uint(x);
  const unsigned ordered = bits ^ ((bits >> 31) != 0 ? 0xffffffffu : 0x80000000u);
  return static_cast<Mass>(ordered) << 32 | (0xffffffffu - static_cast<unsigned>(index));
}
__device__ __forceinline__ int index_of(Mass rank) {
  return static_cast<int>(0xffffffffu - static_cast<unsigned>(rank));
}
__device__ __forceinline__ float value_of(Mass rank) {
  const unsigned ordered = static_cast<unsigned>(rank >> 32);
  return __uint_as_float(ordered ^ ((ordered >> 31) != 0 ? 0x80000000u : 0xffffffffu));
}

}  // namespace gpk
