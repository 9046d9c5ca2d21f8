// out[i] for i < n: gamma, Poisson and binomial numbers by rejection. Element i has the words of
// block i of the stream, attempts 0, 1, 2, ..., so that it depends on nothing but its index. One
// thread per element, grid-stride. Arithmetic in double: the tests of a rejection then decide as
// those of pygpukit/_reference/variates.py, which defines each draw. Invalid parameters give NaN,
// or -1 for integers.
#pragma once

#include "common/dtype.cuh"
#include "common/philox.cuh"

namespace gpk {

constexpr int kVariateThreads = 256;

// In [0, 1) and in (0, 1], of 53 bits.
__device__ __forceinline__ double unit(const RandomWords& words, int i) {
  return static_cast<double>(word_pair(words, i) >> 11) * 0x1p-53;
}
__device__ __forceinline__ double positive_unit(const RandomWords& words, int i) {
  return static_cast<double>((word_pair(words, i) >> 11) + 1) * 0x1p-53;
}

// log(k!) = (k + 1/2) log(k) - k + log(2 pi) / 2 + stirling_rest(k), k >= 1.
__device__ __forceinline__ double stirling_rest(double k) {
  if (k < 16.0) return lgamma(k + 1.0) - ((k + 0.5) * log(k) - k + 0.91893853320467274);
  const double z = 1.0 / (k * k);
  return (1.0 / 12 - z * (1.0 / 360 - z * (1.0 / 1260 - z * (1.0 / 1680)))) / k;
}

// k log(k / mean) + mean - k, without cancellation for large k near the mean (C. Loader, Fast and
// accurate computation of binomial probabilities, 2000).
__device__ __forceinline__ double deviance(double k, double mean) {
  if (k == 0.0) return mean;
  const double t = (mean - k) / k;
  return k * (t - log1p(t));
}

__device__ __forceinline__ double log_poisson(double k, double mean) {
  if (k == 0.0) return -mean;
  return -stirling_rest(k) - deviance(k, mean) - 0.5 * log(6.2831853071795862 * k);
}

__device__ __forceinline__ double log_binomial(double k, double n, double p) {
  if (k == 0.0) return n * log1p(-p);
  if (k == n) return n * log(p);
  return stirling_rest(n) - stirling_rest(k) - stirling_rest(n - k) - deviance(k, n * p) -
         deviance(n - k, n * (1.0 - p)) + 0.5 * log(n / (6.2831853071795862 * k * (n - k)));
}

// Marsaglia and Tsang, A simple method for generating gamma variables, 2000. Shapes below 1 draw
// with shape + 1 and multiply with u ** (1 / shape). A round takes two attempts of the stream.
struct GammaDraw {
  __device__ __forceinline__ double operator()(const RandomStream& stream, unsigned long long i,
                                               double shape, double scale) const {
    if (!(shape >= 0.0) || !(scale >= 0.0)) return sqrt(-1.0);
    if (shape == 0.0) return 0.0;
    if (isinf(shape)) return shape * scale;
    const double d = (shape < 1.0 ? shape + 1.0 : shape) - 1.0 / 3.0;
    const double c = 1.0 / sqrt(9.0 * d);
    for (unsigned int round = 0;; ++round) {
      const RandomWords first = random_words(stream, i, 2 * round);
      const double z = sqrt(-2.0 * log(positive_unit(first, 0))) * cospi(2.0 * unit(first, 1));
      const double root = 1.0 + c * z;
      if (root <= 0.0) continue;
      const double v = root * root * root;
      const RandomWords second = random_words(stream, i, 2 * round + 1);
      if (log(positive_unit(second, 0)) >= 0.5 * z * z + d - d * v + d * log(v)) continue;
      const double power = shape < 1.0 ? exp(log(positive_unit(second, 1)) / shape) : 1.0;
      return d * v * power * scale;
    }
  }
};

// Below a mean of 10 inversion of one uniform number, else PTRS (W. Hoermann, The transformed
// rejection method for generating Poisson random variables, 1993).
struct PoissonDraw {
  __device__ __forceinline__ double operator()(const RandomStream& stream, unsigned long long i,
                                               double mean, double) const {
    if (!(mean >= 0.0) || isinf(mean)) return -1.0;
    if (mean < 10.0) {
      double u = unit(random_words(stream, i, 0), 0);
      double p = exp(-mean);
      double k = 0.0;
      for (; u >= p && p > 0.0; k += 1.0, p *= mean / k) u -= p;
      return k;
    }
    const double b = 0.931 + 2.53 * sqrt(mean);
    const double a = -0.059 + 0.02483 * b;
    const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
    const double limit = 0.9277 - 3.6224 / (b - 2.0);
    for (unsigned int round = 0;; ++round) {
      const RandomWords words = random_words(stream, i, round);
      const double u = unit(words, 0) - 0.5;
      const double v = positive_unit(words, 1);
      const double us = 0.5 - fabs(u);
      const double k = floor((2.0 * a / us + b) * u + mean + 0.43);
      if (us >= 0.07 && v <= limit) return k;
      if (!(k >= 0.0) || (us < 0.013 && v > us)) continue;
      if (log(v * inverse_alpha / (a / (us * us) + b)) <= log_poisson(k, mean)) return k;
    }
  }
};

// Below a mean of 10 inversion, else BTRS (W. Hoermann, The generation of binomial random variates,
// 1993). Probabilities above 1/2 count the failures.
struct BinomialDraw {
  __device__ __forceinline__ double operator()(const RandomStream& stream, unsigned long long i,
                                               double n, double probability) const {
    if (!(n >= 0.0) || isinf(n) || !(probability >= 0.0 && probability <= 1.0)) return -1.0;
    const bool flipped = probability > 0.5;
    const double p = flipped ? 1.0 - probability : probability;
    const double k = n * p < 10.0 ? small(stream, i, n, p) : large(stream, i, n, p);
    return flipped ? n - k : k;
  }

 private:
  static __device__ __forceinline__ double small(const RandomStream& stream, unsigned long long i,
                                                 double n, double p) {
    const double odds = p / (1.0 - p);
    double u = unit(random_words(stream, i, 0), 0);
    double mass = exp(n * log1p(-p));
    double k = 0.0;
    for (; u >= mass && mass > 0.0 && k < n; k += 1.0, mass *= odds * (n - k + 1.0) / k) u -= mass;
    return k;
  }
  static __device__ __forceinline__ double large(const RandomStream& stream, unsigned long long i,
                                                 double n, double p) {
    const double spread = sqrt(n * p * (1.0 - p));
    const double b = 1.15 + 2.53 * spread;
    const double a = -0.0873 + 0.0248 * b + 0.01 * p;
    const double limit = 0.92 - 4.2 / b;
    const double alpha = (2.83 + 5.1 / b) * spread;
    const double at_mode = log_binomial(floor((n + 1.0) * p), n, p);
    for (unsigned int round = 0;; ++round) {
      const RandomWords words = random_words(stream, i, round);
      const double u = unit(words, 0) - 0.5;
      const double v = positive_unit(words, 1);
      const double us = 0.5 - fabs(u);
      const double k = floor((2.0 * a / us + b) * u + n * p + 0.5);
      if (!(k >= 0.0 && k <= n)) continue;
      if (us >= 0.07 && v <= limit) return k;
      if (log(v * alpha / (a / (us * us) + b)) <= log_binomial(k, n, p) - at_mode) return k;
    }
  }
};

template <class T, class Draw>
__global__ void __launch_bounds__(kVariateThreads)
    variate_kernel(T* out, long long n, RandomStream stream, VariateArgs args) {
  const long long step = static_cast<long long>(gridDim.x) * kVariateThreads;
  for (long long i = static_cast<long long>(blockIdx.x) * kVariateThreads + threadIdx.x; i < n;
       i += step) {
    const double first = args.first != nullptr ? args.first[i] : args.first_value;
    const double second = args.second != nullptr ? args.second[i] : args.second_value;
    out[i] = convert<T>(Draw()(stream, static_cast<unsigned long long>(i), first, second));
  }
}

}  // namespace gpk
