// Functors: special functions of real numbers. run<T>(x) as in arithmetic.cuh. Those of CUDA's math
// library are within a few ulp; digamma and logit are written here.
#pragma once

#include "elementwise/functions.cuh"

namespace gpk {

#define GPK_SPECIAL(Name, value)                   \
  struct Name {                                    \
    template <class T, class C>                    \
    static __device__ __forceinline__ C run(C x) { \
      return value;                                \
    }                                              \
  };
GPK_SPECIAL(Erfinv, erfinv(x))
GPK_SPECIAL(Erfcinv, erfcinv(x))
GPK_SPECIAL(Gamma, tgamma(x))
GPK_SPECIAL(Ndtr, normcdf(x))
GPK_SPECIAL(Ndtri, normcdfinv(x))
GPK_SPECIAL(BesselI0, cyl_bessel_i0(x))
#undef GPK_SPECIAL

// log(x) minus the tail of the asymptotic series, after the recurrence psi(x) = psi(x + 1) - 1 / x
// has brought x to where the series is accurate. Negative x are reflected:
// psi(x) = psi(1 - x) - pi / tan(pi x), with the fraction of x alone under the tangent.
struct Digamma {
  template <class T, class C>
  static __device__ __forceinline__ C run(C x) {
    C reflected = C(0);
    if (x <= C(0)) {
      if (x == C(0)) return -C(1) / x;
      const C fraction = x - rint(x);
      if (fraction == C(0)) return fraction / fraction;  // a pole: NaN
      reflected = C(3.141592653589793) * cospi(fraction) / sinpi(fraction);
      x = C(1) - x;
    }
    constexpr C least = sizeof(C) == 8 ? C(10) : C(6);
    C sum = C(0);
    for (; x < least; x += C(1)) sum += C(1) / x;
    if (isinf(x)) return x - reflected;
    const C z = C(1) / (x * x);
    C tail;  // the sum of B(2k) / (2k) * z**(k - 1), B being Bernoulli's numbers
    if constexpr (sizeof(C) == 8) {
      tail = C(0.0833333333333333333) * z - C(0.0210927960927960928);
      tail = tail * z + C(0.00757575757575757576);
      tail = tail * z - C(0.00416666666666666667);
    } else {
      tail = C(-0.00416666666666666667);
    }
    tail = tail * z + C(0.00396825396825396825);
    tail = tail * z - C(0.00833333333333333333);
    tail = tail * z + C(0.0833333333333333333);
    return log(x) - C(0.5) / x - z * tail - sum - reflected;
  }
};

// log(x / (1 - x)); around 1/2 through atanh, where the logarithms would cancel.
struct Logit {
  template <class T, class C>
  static __device__ __forceinline__ C run(C x) {
    return fabs(x - C(0.5)) < C(0.25) ? C(2) * atanh(C(2) * x - C(1)) : log(x) - log1p(-x);
  }
};

// sin(pi x) / (pi x). At infinity NaN, as NumPy has it.
struct Sinc {
  template <class T, class C>
  static __device__ __forceinline__ C run(C x) {
    return x == C(0) ? C(1) : sinpi(x) / (C(3.141592653589793) * x);
  }
};

// -x log(x), 0 at 0, -inf below.
struct Entr {
  template <class T, class C>
  static __device__ __forceinline__ C run(C x) {
    return x > C(0) ? -x * log(x) : x == C(0) ? C(0) : x != x ? x : log(C(0));
  }
};

// 0 where x is 0, unless y is NaN.
struct Xlogy {
  template <class T, class C>
  static __device__ __forceinline__ C run(C x, C y) {
    return x == C(0) && y == y ? C(0) : x * log(y);
  }
};

struct Xlog1py {
  template <class T, class C>
  static __device__ __forceinline__ C run(C x, C y) {
    return x == C(0) && y == y ? C(0) : x * log1p(y);
  }
};

}  // namespace gpk
