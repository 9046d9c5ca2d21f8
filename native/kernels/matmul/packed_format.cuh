// Packed weights to pairs of 16-bit floats in registers: one struct per code, a few lop3 and one
// fma for two values, no tables but that of nf4. A word of eight 4-bit values gives the pairs
// (i, i + 4), one of four 8-bit values (i, i + 2): x is permuted to match (permute_input).
//   unpack(word, context, pairs): `context` is what context(zero point, lane) gave.
// Every value is exact, those of nf4 are rounded to T.
#pragma once

#include "common/packed_codec.cuh"

namespace gpk {

// Constants of two equal 16-bit floats. From kBase on, integers are one unit in the last place
// apart.
template <class T>
struct Pairs;

template <>
struct Pairs<bfloat16> {
  static constexpr unsigned kBase = 0x43004300u;  // 128
  static constexpr unsigned kMinusOne = 0xbf80bf80u;
  static constexpr int kMantissa = 7;
  static constexpr int kBias = 127;
  static __device__ __forceinline__ unsigned fma(unsigned a, unsigned b, unsigned c) {
    return ptx::fma_bfloats(a, b, c);
  }
};

template <>
struct Pairs<float16> {
  static constexpr unsigned kBase = 0x64006400u;  // 1024
  static constexpr unsigned kMinusOne = 0xbc00bc00u;
  static constexpr int kMantissa = 10;
  static constexpr int kBias = 15;
  static __device__ __forceinline__ unsigned fma(unsigned a, unsigned b, unsigned c) {
    return ptx::fma_halves(a, b, c);
  }
};

template <class T>
__device__ __forceinline__ unsigned subtract_pair(unsigned a, unsigned b) {
  return Pairs<T>::fma(b, Pairs<T>::kMinusOne, a);
}

template <class T>
__device__ __forceinline__ unsigned multiply_pair(unsigned a, unsigned b) {
  return Pairs<T>::fma(a, b, 0x80008000u);  // -0, so that zeros keep their sign
}

// Twice 2^kExponent.
template <class T, int kExponent>
inline constexpr unsigned kPowerPair =
    static_cast<unsigned>((Pairs<T>::kBias + kExponent) << Pairs<T>::kMantissa) * 0x10001u;

// Of a float with kMantissa mantissa bits and bias kBias: sign and magnitude at their places in T,
// then a multiply that moves the exponent and normalises subnormals.
template <class T, int kMantissa, int kBias>
__device__ __forceinline__ unsigned rebias_pair(unsigned bits) {
  if constexpr (Pairs<T>::kBias == kBias) return bits;
  return multiply_pair<T>(bits, kPowerPair<T, Pairs<T>::kBias - kBias>);
}

template <int kCode, class T>
struct PackedFormat;

template <class T>
struct NoContext {
  static __device__ __forceinline__ unsigned context(float, int) { return 0; }
};

template <class T>
struct PackedFormat<kCodeInt4, T> : NoContext<T> {
  static __device__ __forceinline__ void unpack(unsigned word, unsigned, unsigned (&pairs)[4]) {
    constexpr unsigned kEight = Pairs<T>::kBase + 0x00080008u;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      pairs[i] = subtract_pair<T>((word >> (4 * i) & 0x000f000fu) ^ kEight, kEight);
  }
};

template <class T>
struct PackedFormat<kCodeUint4, T> {
  static __device__ __forceinline__ unsigned context(float zero, int) {
    return Pairs<T>::kBase + static_cast<unsigned>(zero) * 0x10001u;
  }
  static __device__ __forceinline__ void unpack(unsigned word, unsigned zero,
                                                unsigned (&pairs)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      pairs[i] = subtract_pair<T>((word >> (4 * i) & 0x000f000fu) | Pairs<T>::kBase, zero);
  }
};

template <class T>
struct PackedFormat<kCodeInt8, T> : NoContext<T> {
  static __device__ __forceinline__ void unpack(unsigned word, unsigned, unsigned (&pairs)[2]) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const unsigned bytes = word >> (8 * i);
      // b = (b & 127) - (b & 128), both above kBase: the difference is exact.
      pairs[i] = subtract_pair<T>((bytes & 0x007f007fu) | Pairs<T>::kBase,
                                  (bytes & 0x00800080u) | Pairs<T>::kBase);
    }
  }
};

template <class T>
struct PackedFormat<kCodeUint8, T> {
  // Value and zero point as signed numbers, 128 less: bfloat16 has integers up to 256.
  static __device__ __forceinline__ unsigned context(float zero, int) {
    return convert<T>(zero - 128.0f).bits * 0x10001u;
  }
  static __device__ __forceinline__ void unpack(unsigned word, unsigned zero,
                                                unsigned (&pairs)[2]) {
    PackedFormat<kCodeInt8, T>::unpack(word ^ 0x80808080u, 0, pairs);
#pragma unroll
    for (int i = 0; i < 2; ++i) pairs[i] = subtract_pair<T>(pairs[i], zero);
  }
};

// 8-bit floats: bytes 0 and 2, then 1 and 3. The sign is at bit 15, the rest kShift below it.
template <class T, int kMantissa, int kBias>
__device__ __forceinline__ void unpack_fp8(unsigned word, unsigned (&pairs)[2]) {
  constexpr int kShift = 8 - Pairs<T>::kMantissa + kMantissa;
  pairs[0] = (word & 0x00800080u) << 8 | (word & 0x007f007fu) << (8 - kShift);
  pairs[1] = (word & 0x80008000u) | (word & 0x7f007f00u) >> kShift;
#pragma unroll
  for (int i = 0; i < 2; ++i) pairs[i] = rebias_pair<T, kMantissa, kBias>(pairs[i]);
}

template <class T>
struct PackedFormat<kCodeE4M3, T> : NoContext<T> {
  static __device__ __forceinline__ void unpack(unsigned word, unsigned, unsigned (&pairs)[2]) {
    unpack_fp8<T, 3, 7>(word, pairs);
  }
};

template <class T>
struct PackedFormat<kCodeE5M2, T> : NoContext<T> {
  static __device__ __forceinline__ void unpack(unsigned word, unsigned, unsigned (&pairs)[2]) {
    unpack_fp8<T, 2, 15>(word, pairs);
  }
};

template <class T>
struct PackedFormat<kCodeE2M1, T> : NoContext<T> {
  static __device__ __forceinline__ void unpack(unsigned word, unsigned, unsigned (&pairs)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const unsigned nibbles = word >> (4 * i);
      pairs[i] = rebias_pair<T, 1, 1>((nibbles & 0x00080008u) << 12 |
                                      (nibbles & 0x00070007u) << (Pairs<T>::kMantissa - 1));
    }
  }
};

// The table is in the lanes of the warp, all of which must be here.
template <class T>
struct PackedFormat<kCodeNf4, T> {
  static __device__ __forceinline__ unsigned context(float, int lane) {
    return convert<T>(nf4_value(static_cast<unsigned>(lane) % 16)).bits;
  }
  static __device__ __forceinline__ void unpack(unsigned word, unsigned table,
                                                unsigned (&pairs)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      pairs[i] = __shfl_sync(0xffffffffu, table, static_cast<int>(word >> (4 * i) & 15u)) |
                 __shfl_sync(0xffffffffu, table, static_cast<int>(word >> (4 * i + 16) & 15u))
                     << 16;
  }
};

// The word's values of x in the order of its pairs: x has 8 or 4 consecutive elements.
__device__ __forceinline__ void permute_input(const unsigned (&x)[4], unsigned (&pairs)[4]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    pairs[2 * i] = __byte_perm(x[i], x[i + 2], 0x5410);
    pairs[2 * i + 1] = __byte_perm(x[i], x[i + 2], 0x7632);
  }
}
__device__ __forceinline__ void permute_input(const unsigned (&x)[2], unsigned (&pairs)[2]) {
  pairs[0] = __byte_perm(x[0], x[1], 0x5410);
  pairs[1] = __byte_perm(x[0], x[1], 0x7632);
}

// Of a scale stored as `code`.
template <int kScale>
__device__ __forceinline__ float packed_scale(const void* scales, long long at) {
  if constexpr (kScale == kScaleFloat) return static_cast<const float*>(scales)[at];
  const unsigned code = static_cast<const unsigned char*>(scales)[at];
  if constexpr (kScale == kScaleE8M0) return e8m0_value(code);
  return to_compute(float8_e4m3fn{static_cast<unsigned char>(code)});
}

}  // namespace gpk
