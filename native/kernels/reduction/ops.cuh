// The operations of reductions. An Op has
//   Value   what elements are converted to (value());   kCodes   dtypes that value() supports
//   Acc     the accumulator: init(), merge(a, b) with b later or elsewhere, store()
//   add(acc, x[kU * kV], first, step)      element u * kV + v has index first + u * step + v
//   add_some(acc, x[kN], valid, first, step)   element i counts when bit i of `valid` is set
// Values of one call are combined as a tree and then enter Acc, which is wider where rounding
// matters: float32 sums are kept in float64.
#pragma once

#include "args/reduction.h"
#include "reduction/any.cuh"

namespace gpk {

using namespace kernels;

template <class T, int kN, class Combine>
__device__ __forceinline__ T tree(T (&x)[kN], Combine combine) {
#pragma unroll
  for (int s = 1; s < kN; s *= 2) {
#pragma unroll
    for (int i = 0; i + s < kN; i += 2 * s) x[i] = combine(x[i], x[i + s]);
  }
  return x[0];
}

__device__ __forceinline__ void store_mean(void* out, long long at, complex128 sum, double n,
                                           int code) {
  store_any(out, at, complex128{sum.re / n, sum.im / n}, code);
}
template <class T>
__device__ __forceinline__ void store_mean(void* out, long long at, T sum, double n, int code) {
  store_any(out, at, static_cast<double>(sum) / n, code);
}

// Sum (kProduct false) or product.
template <class V, bool kProduct>
struct Fold {
  using Value = V;
  using Acc = typename Wide<V>::type;
  static constexpr unsigned kCodes = codes_of<Acc>();
  int skip_nan;

  template <class T>
  static __device__ __forceinline__ T identity() {
    return constant<T>(kProduct ? 1.0 : 0.0);
  }
  __device__ __forceinline__ Acc init() const { return identity<Acc>(); }
  template <class In>
  static __device__ __forceinline__ V value(In x) {
    return convert<V>(x);
  }
  template <class T>
  static __device__ __forceinline__ T combine(T a, T b) {
    if constexpr (kProduct) {
      return times(a, b);
    } else {
      return plus(a, b);
    }
  }
  template <int kU, int kV>
  __device__ __forceinline__ void add(Acc& acc, V (&x)[kU * kV], long long, long long) const {
    // The tree is in both branches, so that only its result is live across them.
    V total;
    if (skip_nan) {
#pragma unroll
      for (int i = 0; i < kU * kV; ++i)
        if (is_nan(x[i])) x[i] = identity<V>();
      total = tree(x, [](V a, V b) { return combine(a, b); });
    } else {
      total = tree(x, [](V a, V b) { return combine(a, b); });
    }
    acc = combine(acc, convert<Acc>(total));
  }
  template <int kN>
  __device__ __forceinline__ void add_some(Acc& acc, V (&x)[kN], unsigned valid, long long first,
                                           long long step) const {
#pragma unroll
    for (int i = 0; i < kN; ++i)
      if ((valid >> i & 1u) == 0) x[i] = identity<V>();
    add<1, kN>(acc, x, first, step);
  }
  __device__ __forceinline__ void merge(Acc& a, const Acc& b) const { a = combine(a, b); }
  __device__ __forceinline__ void store(void* out, long long at, const Acc& acc,
                                        const Finish& f) const {
    if (f.mode == FinishMode::kMean) {
      store_mean(out, at, acc, static_cast<double>(f.length), f.code);
    } else {
      store_any(out, at, acc, f.code);
    }
  }
};
template <class V>
using Sum = Fold<V, false>;
template <class V>
using Prod = Fold<V, true>;

// The number of nonzero elements; any and all follow from it.
struct Count : Fold<int, false> {
  static constexpr unsigned kCodes = kAllCodes;
  template <class In>
  static __device__ __forceinline__ int value(In x) {
    return is_nonzero(x) ? 1 : 0;
  }
  __device__ __forceinline__ void store(void* out, long long at, const long long& acc,
                                        const Finish& f) const {
    long long result = acc;
    if (f.mode == FinishMode::kAny) result = acc != 0;
    if (f.mode == FinishMode::kAll) result = acc == f.length;
    store_any(out, at, result, f.code);
  }
};

// Largest (kMax) or smallest. NaN propagates, or is ignored with skip_nan.
template <class V, bool kMax>
struct Extreme {
  using Value = V;
  using Acc = V;
  static constexpr unsigned kCodes = codes_of<V>();
  int skip_nan;

  __device__ __forceinline__ V init() const {
    return skip_nan ? not_a_number(Worst<V, kMax>::get()) : Worst<V, kMax>::get();
  }
  template <class In>
  static __device__ __forceinline__ V value(In x) {
    return convert<V>(x);
  }
  template <int kU, int kV>
  __device__ __forceinline__ void add(V& acc, V (&x)[kU * kV], long long, long long) const {
    if (skip_nan) {
      const V best = tree(x, [](V a, V b) { return extreme_number<kMax>(a, b); });
      acc = extreme_number<kMax>(acc, best);
    } else {
      acc = extreme<kMax>(acc, tree(x, [](V a, V b) { return extreme<kMax>(a, b); }));
    }
  }
  template <int kN>
  __device__ __forceinline__ void add_some(V& acc, V (&x)[kN], unsigned valid, long long first,
                                           long long step) const {
#pragma unroll
    for (int i = 0; i < kN; ++i)
      if ((valid >> i & 1u) == 0) x[i] = init();
    add<1, kN>(acc, x, first, step);
  }
  __device__ __forceinline__ void merge(V& a, const V& b) const {
    a = skip_nan ? extreme_number<kMax>(a, b) : extreme<kMax>(a, b);
  }
  __device__ __forceinline__ void store(void* out, long long at, const V& acc,
                                        const Finish& f) const {
    store_any(out, at, acc, f.code);
  }
};
template <class V>
using Max = Extreme<V, true>;
template <class V>
using Min = Extreme<V, false>;

// Index of the first largest (kMax) or smallest element. NaN propagates, or is ignored with
// skip_nan; -1 when nothing is left.
template <class V, bool kMax>
struct Arg {
  struct Acc {
    V value;
    long long index;
  };
  using Value = V;
  static constexpr unsigned kCodes = codes_of<V>();
  static constexpr long long kNone = 0x7fffffffffffffffll;
  int skip_nan;

  __device__ __forceinline__ Acc init() const { return {Worst<V, kMax>::get(), kNone}; }
  template <class In>
  static __device__ __forceinline__ V value(In x) {
    return convert<V>(x);
  }
  static __device__ __forceinline__ bool beats(V a, V b) { return kMax ? less(b, a) : less(a, b); }

  // Whether `x`, which comes after `best`, replaces it.
  __device__ __forceinline__ bool replaces(V x, V best) const {
    const bool nan = skip_nan ? is_nan(best) && !is_nan(x) : is_nan(x) && !is_nan(best);
    return beats(x, best) || nan;
  }
  template <int kU, int kV>
  __device__ __forceinline__ void add(Acc& acc, V (&x)[kU * kV], long long first,
                                      long long step) const {
    V best = x[0];
    int at = 0;
#pragma unroll
    for (int i = 1; i < kU * kV; ++i) {
      if (replaces(x[i], best)) {
        best = x[i];
        at = i;
      }
    }
    const bool none = skip_nan && is_nan(best);
    merge(acc, {best, none ? kNone : first + at / kV * step + at % kV});
  }
  template <int kN>
  __device__ __forceinline__ void add_some(Acc& acc, V (&x)[kN], unsigned valid, long long first,
                                           long long step) const {
    V best = x[0];
    int at = -1;
#pragma unroll
    for (int i = 0; i < kN; ++i) {
      const bool counts = (valid >> i & 1u) != 0 && !(skip_nan && is_nan(x[i]));
      if (counts && (at < 0 || replaces(x[i], best))) {
        best = x[i];
        at = i;
      }
    }
    merge(acc, {best, at < 0 ? kNone : first + at * step});
  }
  __device__ __forceinline__ void merge(Acc& a, const Acc& b) const {
    bool take;
    if (a.index == kNone || b.index == kNone) {
      take = a.index == kNone;
    } else if (is_nan(a.value) || is_nan(b.value)) {
      take = is_nan(b.value) && (!is_nan(a.value) || b.index < a.index);
    } else {
      take = beats(b.value, a.value) || (!beats(a.value, b.value) && b.index < a.index);
    }
    if (take) a = b;
  }
  __device__ __forceinline__ void store(void* out, long long at, const Acc& acc,
                                        const Finish& f) const {
    store_any(out, at, acc.index == kNone ? -1ll : acc.index, f.code);
  }
};
template <class V>
using ArgMax = Arg<V, true>;
template <class V>
using ArgMin = Arg<V, false>;

}  // namespace gpk
