// float32 on tensor cores ("3xTF32"): x = big + small, both TF32, and
//   a b = small_a big_b + big_a small_b + big_a big_b,
// small products first; small_a small_b is below the last bit. About 22 bits of each operand count.
// Tensor cores truncate their sums, so that a caller adds up many of them by itself.
#pragma once

#include "common/mma.cuh"

namespace gpk {

// A float32 whose products are computed that way.
struct tf32x3 {
  float value;
};

__device__ __forceinline__ bool is_finite(unsigned x) { return (x & 0x7f800000u) != 0x7f800000u; }

// The nearest TF32; what would round to infinity is truncated.
__device__ __forceinline__ unsigned big_part(unsigned x) {
  const unsigned big = round_to_tf32(x);
  return is_finite(big) || !is_finite(x) ? big : x & 0xffffe000u;
}

// What it leaves of x. Infinities and NaN are in the product of big parts alone: times a small
// part, which may be 0, they would be NaN.
__device__ __forceinline__ unsigned small_part(unsigned x, unsigned big) {
  const float rest = __uint_as_float(x) - __uint_as_float(big);
  return is_finite(x) ? round_to_tf32(__float_as_uint(rest)) : 0u;
}
__device__ __forceinline__ unsigned finite_part(unsigned big) { return is_finite(big) ? big : 0u; }

// Of a factor, for instruction kPart; kSmall: the one where its small part is multiplied.
template <int kPart, int kSmall>
__device__ __forceinline__ unsigned factor(unsigned x) {
  const unsigned big = big_part(x);
  if constexpr (kPart == kSmall) return small_part(x, big);
  return kPart == 2 ? big : finite_part(big);
}

template <>
struct Mma<tf32x3, tf32x3> {
  static constexpr int kParts = 3;
  template <int kPart>
  static __device__ __forceinline__ void run(float (&c)[4], const unsigned (&a)[4], unsigned b0,
                                             unsigned b1) {
    unsigned x[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) x[i] = factor<kPart, 0>(a[i]);
    Mma<float, float>::template run<0>(c, x, factor<kPart, 1>(b0), factor<kPart, 1>(b1));
  }
};

}  // namespace gpk
