// From random words to numbers. A draw makes kPerBlock elements of one block of four words: four
// from a word each, or two from two words each for 64-bit types. The meaning of every draw is in
// pygpukit/_reference/random.py: uniforms and integers have the same bits, normals and exponentials
// differ by rounding (float32: below 2e-6 absolute and relative).
#pragma once

#include "common/dtype.cuh"
#include "random/philox.cuh"

namespace gpk {

// In [0, 1), a multiple of the dtype's own step, so that nothing rounds up to 1.
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
struct UniformDraw {
  static constexpr int kPerBlock = 4;
  float low, range;
  __device__ __forceinline__ void operator()(const RandomWords& words, const RandomStream&,
                                             unsigned long long, T* out) const {
    constexpr int kBits = Unit<T>::kBits;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float u = static_cast<float>(words.w[i] >> (32 - kBits)) * (1.0f / (1 << kBits));
      out[i] = from_compute<T>(__fadd_rn(__fmul_rn(u, range), low));
    }
  }
};

template <>
struct UniformDraw<double> {
  static constexpr int kPerBlock = 2;
  double low, range;
  __device__ __forceinline__ void operator()(const RandomWords& words, const RandomStream&,
                                             unsigned long long, double* out) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const double u = static_cast<double>(word_pair(words, i) >> 11) * 0x1p-53;
      out[i] = __dadd_rn(__dmul_rn(u, range), low);
    }
  }
};

// -log of (word + 1/2) * 2**-32 in (0, 1]. The hardware's log2 has an absolute error near 1, so a
// polynomial takes over there.
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

// Cosine and sine of a turn of word * 2**-32: the nearest quarter turn, and polynomials.
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

// Box and Muller: a pair of words gives a pair of normals.
template <class T>
struct NormalDraw {
  static constexpr int kPerBlock = 4;
  float loc, scale;
  __device__ __forceinline__ void operator()(const RandomWords& words, const RandomStream&,
                                             unsigned long long, T* out) const {
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
struct NormalDraw<double> {
  static constexpr int kPerBlock = 2;
  double loc, scale;
  __device__ __forceinline__ void operator()(const RandomWords& words, const RandomStream&,
                                             unsigned long long, double* out) const {
    const double radius = sqrt(2.0 * minus_log(word_pair(words, 0)));
    double cosine, sine;
    sincospi(static_cast<double>(word_pair(words, 1) >> 11) * 0x1p-52, &sine, &cosine);
    out[0] = fma(radius * cosine, scale, loc);
    out[1] = fma(radius * sine, scale, loc);
  }
};

template <class T>
struct ExponentialDraw {
  static constexpr int kPerBlock = 4;
  float scale;
  __device__ __forceinline__ void operator()(const RandomWords& words, const RandomStream&,
                                             unsigned long long, T* out) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) out[i] = from_compute<T>(minus_log(words.w[i]) * scale);
  }
};

template <>
struct ExponentialDraw<double> {
  static constexpr int kPerBlock = 2;
  double scale;
  __device__ __forceinline__ void operator()(const RandomWords& words, const RandomStream&,
                                             unsigned long long, double* out) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) out[i] = minus_log(word_pair(words, i)) * scale;
  }
};

// True for words below the threshold, which is probability * 2**32.
struct BernoulliDraw {
  static constexpr int kPerBlock = 4;
  unsigned long long threshold;
  __device__ __forceinline__ void operator()(const RandomWords& words, const RandomStream&,
                                             unsigned long long, bool* out) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) out[i] = words.w[i] < threshold;
  }
};

// low + the high half of word * range (Lemire): words whose low half is below 2**32 mod range would
// make some values likelier than others and are drawn again. range is at most 2**32.
template <class T>
struct IntegerDraw {
  static constexpr int kPerBlock = 4;
  unsigned long long low, range;
  __device__ __forceinline__ void operator()(const RandomWords& words, const RandomStream& stream,
                                             unsigned long long block, T* out) const {
    const unsigned int range32 = static_cast<unsigned int>(range);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      unsigned long long scaled = words.w[i] * range;
      if (static_cast<unsigned int>(scaled) < range32) {
        const unsigned int least = (0u - range32) % range32;
        for (unsigned int attempt = 1; static_cast<unsigned int>(scaled) < least; ++attempt)
          scaled = random_words(stream, block, attempt).w[i] * range;
      }
      out[i] = static_cast<T>(low + (scaled >> 32));
    }
  }
};

// The same with 64-bit words; a range of 0 stands for 2**64.
struct WideIntegerDraw {
  static constexpr int kPerBlock = 2;
  unsigned long long low, range;
  __device__ __forceinline__ void operator()(const RandomWords& words, const RandomStream& stream,
                                             unsigned long long block,
                                             unsigned long long* out) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      unsigned long long word = word_pair(words, i);
      if (range != 0 && word * range < range) {
        const unsigned long long least = (0ull - range) % range;
        for (unsigned int attempt = 1; word * range < least; ++attempt)
          word = word_pair(random_words(stream, block, attempt), i);
      }
      out[i] = low + (range == 0 ? word : __umul64hi(word, range));
    }
  }
};

}  // namespace gpk
