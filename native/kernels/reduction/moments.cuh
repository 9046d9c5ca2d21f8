// Means and variances with counts. Each call of add() first computes the mean of its own few values
// and sums squares about it, which avoids cancellation; the parts are merged by Chan's formula in
// float64. A complex variance is the sum of the variances of the real and imaginary parts.
#pragma once

#include "reduction/ops.cuh"

namespace gpk {

template <class V>
struct Parts {
  using type = V;
  static constexpr int kCount = 1;
  static __device__ __forceinline__ V get(V x, int) { return x; }
};
template <>
struct Parts<complex128> {
  using type = double;
  static constexpr int kCount = 2;
  static __device__ __forceinline__ double get(complex128 x, int part) {
    return part == 0 ? x.re : x.im;
  }
};

template <class V>
struct Var {
  static constexpr int kParts = Parts<V>::kCount;
  using Part = typename Parts<V>::type;
  struct Acc {
    double n;
    double mean[kParts];
    double m2;
  };
  using Value = V;
  static constexpr unsigned kCodes = codes_of<typename Wide<V>::type>();
  int skip_nan;

  __device__ __forceinline__ Acc init() const {
    Acc acc;
    acc.n = acc.m2 = 0.0;
#pragma unroll
    for (int p = 0; p < kParts; ++p) acc.mean[p] = 0.0;
    return acc;
  }
  template <class In>
  static __device__ __forceinline__ V value(In x) {
    return convert<V>(x);
  }
  template <int kU, int kV>
  __device__ __forceinline__ void add(Acc& acc, V (&x)[kU * kV], long long first,
                                      long long step) const {
    if constexpr (kU * kV == 1) {
      add_some<1>(acc, x, 1u, first, step);
    } else if (skip_nan) {
#pragma unroll
      for (int u = 0; u < kU; ++u) {
        V part[kV];
#pragma unroll
        for (int v = 0; v < kV; ++v) part[v] = x[u * kV + v];
        add_some<kV>(acc, part, ~0u, first, step);
      }
    } else {
      add_all<kU * kV>(acc, x);
    }
  }
  template <int kN>
  __device__ __forceinline__ void add_all(Acc& acc, const V (&x)[kN]) const {
    Acc chunk = init();
    chunk.n = kN;
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      Part y[kN];
#pragma unroll
      for (int i = 0; i < kN; ++i) y[i] = Parts<V>::get(x[i], p);
      const Part about = tree(y, [](Part a, Part b) { return a + b; }) * (Part(1) / kN);
      Part sum = 0;
      Part squares = 0;
#pragma unroll
      for (int i = 0; i < kN; ++i) {
        const Part d = Parts<V>::get(x[i], p) - about;
        sum += d;
        squares += d * d;
      }
      put_part(chunk, p, about, sum, squares, kN);
    }
    merge(acc, chunk);
  }
  template <int kN>
  __device__ __forceinline__ void add_some(Acc& acc, V (&x)[kN], unsigned valid, long long,
                                           long long) const {
    int n = 0;
#pragma unroll
    for (int i = 0; i < kN; ++i) {
      if (skip_nan && is_nan(x[i])) valid &= ~(1u << i);
      n += valid >> i & 1u;
    }
    if (n == 0) return;
    Acc chunk = init();
    chunk.n = n;
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      Part total = 0;
#pragma unroll
      for (int i = 0; i < kN; ++i) total += (valid >> i & 1u) != 0 ? Parts<V>::get(x[i], p) : 0;
      const Part about = total / n;
      Part sum = 0;
      Part squares = 0;
#pragma unroll
      for (int i = 0; i < kN; ++i) {
        const Part d = (valid >> i & 1u) != 0 ? Parts<V>::get(x[i], p) - about : 0;
        sum += d;
        squares += d * d;
      }
      put_part(chunk, p, about, sum, squares, n);
    }
    merge(acc, chunk);
  }
  // From sums about `about`, which is the mean up to rounding.
  static __device__ __forceinline__ void put_part(Acc& chunk, int p, double about, double sum,
                                                  double squares, int n) {
    chunk.mean[p] = about + sum / n;
    const double m2 = squares - sum * (sum / n);
    chunk.m2 += m2 < 0.0 ? 0.0 : m2;
  }
  __device__ __forceinline__ void merge(Acc& a, const Acc& b) const {
    if (b.n == 0.0) return;
    const double n = a.n + b.n;
    double share = 0.5;  // threads of a row have equal counts: no division in most merges
    if (a.n != b.n) share = b.n / n;
    double m2 = a.m2 + b.m2;
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      const double delta = b.mean[p] - a.mean[p];
      m2 += delta * delta * a.n * share;
      a.mean[p] = a.n == 0.0 ? b.mean[p] : a.mean[p] + delta * share;
    }
    a.m2 = a.n == 0.0 ? b.m2 : m2;
    a.n = n;
  }
  __device__ __forceinline__ void store(void* out, long long at, const Acc& acc,
                                        const Finish& f) const {
    const double n = acc.n - f.correction;
    double result = acc.n == 0.0 ? not_a_number(0.0) : acc.m2 / (n > 0.0 ? n : 0.0);
    // Like NumPy's nanvar for too few values.
    if (skip_nan && n <= 0.0) result = not_a_number(0.0);
    store_any(out, at, f.mode == FinishMode::kDeviation ? sqrt(result) : result, f.code);
  }
};

// Mean ignoring NaN.
template <class V>
struct NanMean {
  using Value = V;
  using Wider = typename Wide<V>::type;
  struct Acc {
    Wider sum;
    long long n;
  };
  static constexpr unsigned kCodes = codes_of<Wider>();
  int skip_nan;

  __device__ __forceinline__ Acc init() const { return {constant<Wider>(0.0), 0}; }
  template <class In>
  static __device__ __forceinline__ V value(In x) {
    return convert<V>(x);
  }
  template <int kU, int kV>
  __device__ __forceinline__ void add(Acc& acc, V (&x)[kU * kV], long long, long long) const {
    int n = 0;
#pragma unroll
    for (int i = 0; i < kU * kV; ++i) {
      const bool nan = is_nan(x[i]);
      if (nan) x[i] = constant<V>(0.0);
      n += nan ? 0 : 1;
    }
    acc.sum = plus(acc.sum, convert<Wider>(tree(x, [](V a, V b) { return plus(a, b); })));
    acc.n += n;
  }
  template <int kN>
  __device__ __forceinline__ void add_some(Acc& acc, V (&x)[kN], unsigned valid, long long first,
                                           long long step) const {
#pragma unroll
    for (int i = 0; i < kN; ++i)
      if ((valid >> i & 1u) == 0) x[i] = constant<V>(not_a_number(0.0));
    add<1, kN>(acc, x, first, step);
  }
  __device__ __forceinline__ void merge(Acc& a, const Acc& b) const {
    a.sum = plus(a.sum, b.sum);
    a.n += b.n;
  }
  __device__ __forceinline__ void store(void* out, long long at, const Acc& acc,
                                        const Finish& f) const {
    store_mean(out, at, acc.sum, static_cast<double>(acc.n), f.code);
  }
};

}  // namespace gpk
