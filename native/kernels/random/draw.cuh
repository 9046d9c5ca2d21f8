// From random words to numbers. A draw produces kPerBlock elements from one block of four words:
// four from one word each, or two from two words each for 64-bit types. Draws with rejection return
// a bitmask of the elements to be redrawn; redraw() produces one of them. Every draw is defined in
// pygpukit/_reference/random.py: uniforms and integers have the same bits, normals and exponentials
// differ by rounding (float32: below 2e-6 absolute and relative).
#pragma once

#include "common/dtype.cuh"
#include "common/philox.cuh"

namespace gpk {

// In [0, 1), a multiple of the dtype's epsilon, so that nothing rounds up to 1.
template <class T>
struct Unit {
  static constexpr int kBits = 24;
};
template <>
struct Unit<float16> {
  static constexpr int kBits = 11;
};
template <>
struct Unit<bfloat16> {
  static constexpr int kBits = 8;
};

template <class T>
struct UniformDraw : UniformArgs<float> {
  static constexpr int kPerBlock = 4;
  __device__ __forceinline__ void operator()(const RandomWords& words, T* out) const {
    constexpr int kBits = Unit<T>::kBits;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float u = static_cast<float>(words.w[i] >> (32 - kBits)) * (1.0f / (1 << kBits));
      out[i] = from_compute<T>(__fadd_rn(__fmul_rn(u, range), low));
    }
  }
};

template <>
struct UniformDraw<double> : UniformArgs<double> {
  static constexpr int kPerBlock = 2;
  __device__ __forceinline__ void operator()(const RandomWords& words, double* out) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const double u = static_cast<double>(word_pair(words, i) >> 11) * 0x1p-53;
      out[i] = __dadd_rn(__dmul_rn(u, range), low);
    }
  }
};

// -log of (word + 1/2) * 2**-32 in (0, 1]. The hardware's log2 loses relative accuracy near 1, so a
// polynomial is used there.
__device__ __forceinline__ float minus_log(unsigned int word) {
  const float u = fmaf(__uint2float_rn(word), 0x1p-32f, 0x1p-33f);
  const float v = 1.0f - u;
  float log2;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(log2) : "f"(u));
  float p = fmaf(v, 0.23241502f, 0.19030908f);
  p = fmaf(v, p, 0.25062713f);
  p = fmaf(v, p, 0.33331582f);
  p = fmaf(v, p, 0.5000002f);
  return v < 0.125f ? fmaf(v * v, p, v) : -0.69314718f * log2;
}

__device__ __forceinline__ double minus_log(unsigned long long word) {
  return -log(static_cast<double>((word >> 11) + 1) * 0x1p-53);
}

// Cosine and sine of word * 2**-32 turns: the nearest quarter turn, and polynomials.
__device__ __forceinline__ void turn(unsigned int word, float& cosine, float& sine) {
  const unsigned int shifted = word + 0x20000000u;
  const unsigned int quarter = shifted >> 30;
  const float y = static_cast<float>(static_cast<int>(shifted & 0x3fffffffu) - 0x20000000) *
                  (6.2831853f * 0x1p-32f);
  const float z = y * y;
  const float s = fmaf(y * z, fmaf(z, fmaf(z, -0.00019517298f, 0.008332178f), -0.16666655f), y);
  const float c = fmaf(z * z, fmaf(z, fmaf(z, 2.443845e-05f, -0.0013887368f), 0.041666646f),
                       fmaf(z, -0.5f, 1.0f));
  const float x0 = (quarter & 1u) != 0 ? s : c;
  const float x1 = (quarter & 1u) != 0 ? c : s;
  cosine = __uint_as_float(__float_as_uint(x0) ^ ((quarter + 1u) << 30 & 0x80000000u));
  sine = __uint_as_float(__float_as_uint(x1) ^ (quarter << 30 & 0x80000000u));
}

// Box-Muller: a pair of words gives a pair of normals.
template <class T>
struct NormalDraw : NormalArgs<float> {
  static constexpr int kPerBlock = 4;
  __device__ __forceinline__ void operator()(const RandomWords& words, T* out) const {
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      float radius, cosine, sine;
      asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(radius) : "f"(2.0f * minus_log(words.w[i])));
      turn(words.w[i + 1], cosine, sine);
      out[i] = from_compute<T>(fmaf(radius * cosine, scale, loc));
      out[i + 1] = from_compute<T>(fmaf(radius * sine, scale, loc));
    }
  }
};

template <>
struct NormalDraw<double> : NormalArgs<double> {
  static constexpr int kPerBlock = 2;
  __device__ __forceinline__ void operator()(const RandomWords& words, double* out) const {
    const double radius = sqrt(2.0 * minus_log(word_pair(words, 0)));
    double cosine, sine;
    sincospi(static_cast<double>(word_pair(words, 1) >> 11) * 0x1p-52, &sine, &cosine);
    out[0] = fma(radius * cosine, scale, loc);
    out[1] = fma(radius * sine, scale, loc);
  }
};

template <class T>
struct ExponentialDraw : ExponentialArgs<float> {
  static constexpr int kPerBlock = 4;
  __device__ __forceinline__ void operator()(const RandomWords& words, T* out) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) out[i] = from_compute<T>(minus_log(words.w[i]) * scale);
  }
};

template <>
struct ExponentialDraw<double> : ExponentialArgs<double> {
  static constexpr int kPerBlock = 2;
  __device__ __forceinline__ void operator()(const RandomWords& words, double* out) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) out[i] = minus_log(word_pair(words, i)) * scale;
  }
};

struct BernoulliDraw : BernoulliArgs {
  static constexpr int kPerBlock = 4;
  __device__ __forceinline__ void operator()(const RandomWords& words, bool* out) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) out[i] = words.w[i] < threshold;
  }
};

// low + the high half of word * range (Lemire): words whose low half is below 2**32 mod range would
// bias the result and are rejected. range is at most 2**32.
template <class T>
struct IntegerDraw : IntegerArgs {
  static constexpr int kPerBlock = 4;
  __device__ __forceinline__ unsigned int operator()(const RandomWords& words, T* out) const {
    const unsigned int range32 = static_cast<unsigned int>(range);
    unsigned int rejected = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const unsigned long long scaled = words.w[i] * range;
      // The division is rare: the low half is below range in one word of 2**32 / range.
      const unsigned int fraction = static_cast<unsigned int>(scaled);
      if (fraction < range32 && fraction < (0u - range32) % range32) rejected |= 1u << i;
      out[i] = static_cast<T>(low + (scaled >> 32));
    }
    return rejected;
  }
  __device__ __forceinline__ T redraw(const RandomStream& stream, unsigned long long block,
                                      int i) const {
    const unsigned int range32 = static_cast<unsigned int>(range);
    const unsigned int least = (0u - range32) % range32;
    unsigned long long scaled = 0;
    for (unsigned int attempt = 1; static_cast<unsigned int>(scaled) < least; ++attempt) {
      const RandomWords words = random_words(stream, block, attempt);
      const unsigned int left = (i & 1) != 0 ? words.w[1] : words.w[0];
      const unsigned int right = (i & 1) != 0 ? words.w[3] : words.w[2];
      scaled = ((i & 2) != 0 ? right : left) * range;
    }
    return static_cast<T>(low + (scaled >> 32));
  }
};

// Same with 64-bit words; a range of 0 means 2**64, which rejects no word.
struct WideIntegerDraw : IntegerArgs {
  static constexpr int kPerBlock = 2;
  __device__ __forceinline__ unsigned int operator()(const RandomWords& words,
                                                     unsigned long long* out) const {
    unsigned int rejected = 0;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const unsigned long long word = word_pair(words, i);
      const unsigned long long fraction = word * range;
      if (fraction < range && fraction < (0ull - range) % range) rejected |= 1u << i;
      out[i] = low + (range == 0 ? word : __umul64hi(word, range));
    }
    return rejected;
  }
  __device__ __forceinline__ unsigned long long redraw(const RandomStream& stream,
                                                       unsigned long long block, int i) const {
    const unsigned long long least = (0ull - range) % range;
    unsigned long long word = 0;
    for (unsigned int attempt = 1; word * range < least; ++attempt) {
      const RandomWords words = random_words(stream, block, attempt);
      word = i == 0 ? word_pair(words, 0) : word_pair(words, 1);
    }
    return low + __umul64hi(word, range);
  }
};

}  // namespace gpk
