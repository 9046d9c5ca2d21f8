// Functors: functions of floating-point and complex numbers. run<T>(x) as in arithmetic.cuh; a
// 16-bit T computes in float32 with fast functions accurate to a few ulp.
#pragma once

#include "elementwise/arithmetic.cuh"

namespace gpk {

template <class C>
struct PartOfType;
template <class R>
struct PartOfType<Complex<R>> {
  using Type = R;
};
template <class C>
using PartOf = typename PartOfType<C>::Type;

template <class R>
__device__ __forceinline__ Complex<R> over_i(Complex<R> z) {
  return {z.im, -z.re};
}

template <class R>
__device__ __forceinline__ Complex<R> c_log1p(Complex<R> z) {
  const R re = R(0.5) * log1p(z.re * (R(2) + z.re) + z.im * z.im);
  const bool far = fabs(z.re) > R(0.5) || fabs(z.im) > R(0.5);
  const Complex<R> direct = c_log(Complex<R>{R(1) + z.re, z.im});
  return far ? direct : Complex<R>{re, direct.im};
}

template <class R>
__device__ __forceinline__ Complex<R> c_expm1(Complex<R> z) {
  if (z.im == R(0)) return {expm1(z.re) + R(0), z.im};
  if (isinf(z.re) && !isfinite(z.im))
    return z.re > R(0) ? Complex<R>{z.re, z.im - z.im} : Complex<R>{R(-1), R(0)};
  R s, c;
  sincos(z.im, &s, &c);
  const R half = sin(z.im * R(0.5));
  const R e = exp(z.re);
  return {expm1(z.re) * c - R(2) * half * half, e * s};
}

// Name, function of a real number, function of a complex number.
#define GPK_FUNCTION(Name, real, complex)          \
  struct Name {                                    \
    template <class T, class C>                    \
    static __device__ __forceinline__ C run(C x) { \
      if constexpr (kIsComplex<C>) {               \
        return complex;                            \
      } else {                                     \
        return real;                               \
      }                                            \
    }                                              \
  };
GPK_FUNCTION(Exp, exp(x), (c_exp(x)))
GPK_FUNCTION(Log, log(x), (c_log(x)))
GPK_FUNCTION(Sqrt, sqrt(x), (c_sqrt(x)))
GPK_FUNCTION(Sinh, sinh(x), (c_sinh(x)))
GPK_FUNCTION(Cosh, cosh(x), (c_cosh(x)))
GPK_FUNCTION(Tanh, tanh(x), (c_tanh(x)))
GPK_FUNCTION(Asinh, asinh(x), (c_asinh(x)))
GPK_FUNCTION(Acosh, acosh(x), (c_acosh(x)))
GPK_FUNCTION(Atanh, atanh(x), (c_atanh(x)))
GPK_FUNCTION(Acos, acos(x), (c_acos(x)))
GPK_FUNCTION(Log2, log2(x), (scaled(c_log(x), PartOf<C>(1.4426950408889634))))
GPK_FUNCTION(Log10, log10(x), (scaled(c_log(x), PartOf<C>(0.43429448190325183))))
GPK_FUNCTION(Exp2, exp2(x), (c_exp(scaled(x, PartOf<C>(0.6931471805599453)))))
GPK_FUNCTION(Log1p, log1p(x), (c_log1p(x)))
GPK_FUNCTION(Expm1, expm1(x), (c_expm1(x)))
GPK_FUNCTION(Rsqrt, rsqrt(x), (C{1, 0} / c_sqrt(x)))
GPK_FUNCTION(Sin, sin(x), (over_i(c_sinh(times_i(x)))))
GPK_FUNCTION(Tan, tan(x), (over_i(c_tanh(times_i(x)))))
GPK_FUNCTION(Asin, asin(x), (over_i(c_asinh(times_i(x)))))
GPK_FUNCTION(Atan, atan(x), (over_i(c_atanh(times_i(x)))))
GPK_FUNCTION(Cos, cos(x), (c_cosh(times_i(x))))
#undef GPK_FUNCTION

#define GPK_REAL_FUNCTION(Name, real)              \
  struct Name {                                    \
    template <class T, class C>                    \
    static __device__ __forceinline__ C run(C x) { \
      return real;                                 \
    }                                              \
  };
GPK_REAL_FUNCTION(Cbrt, cbrt(x))
GPK_REAL_FUNCTION(Erf, erf(x))
GPK_REAL_FUNCTION(Erfc, erfc(x))
GPK_REAL_FUNCTION(Lgamma, lgamma(x))
GPK_REAL_FUNCTION(Deg2rad, x* C(0.017453292519943295))
GPK_REAL_FUNCTION(Rad2deg, x* C(57.29577951308232))
#undef GPK_REAL_FUNCTION

// --- rounding, sign, parts ----------------------------------------------------------------------

#define GPK_ROUNDING(Name, function)               \
  struct Name {                                    \
    template <class T, class C>                    \
    static __device__ __forceinline__ C run(C x) { \
      if constexpr (kIsComplex<C>) {               \
        return {function(x.re), function(x.im)};   \
      } else if constexpr (kIsFloat<C>) {          \
        return function(x);                        \
      } else {                                     \
        return x;                                  \
      }                                            \
    }                                              \
  };
GPK_ROUNDING(Floor, floor)
GPK_ROUNDING(Ceil, ceil)
GPK_ROUNDING(Trunc, trunc)
GPK_ROUNDING(Round, rint)
#undef GPK_ROUNDING

struct Negative {
  template <class T, class C>
  static __device__ __forceinline__ C run(C x) {
    return static_cast<C>(-static_cast<Wrap<C>>(x));
  }
};

struct Positive : Copy {};

struct Square {
  template <class T, class C>
  static __device__ __forceinline__ C run(C x) {
    return Multiply::run<T>(x, x);
  }
};

struct Reciprocal {
  template <class T, class C>
  static __device__ __forceinline__ C run(C x) {
    if constexpr (kIsComplex<C>) {
      return C{1, 0} / x;
    } else if constexpr (kIsFloat<C>) {
      return C(1) / x;
    } else {
      return x == C(0) ? C(0) : C(1) / x;
    }
  }
};

struct Abs {
  template <class T, class C>
  static __device__ __forceinline__ auto run(C x) {
    if constexpr (kIsComplex<C>) {
      return c_abs(x);
    } else if constexpr (kIsFloat<C>) {
      return fabs(x);
    } else if constexpr (kIsSigned<C>) {
      return x < C(0) ? static_cast<C>(Wrap<C>(0) - static_cast<Wrap<C>>(x)) : x;
    } else {
      return x;
    }
  }
};

struct Sign {
  template <class T, class C>
  static __device__ __forceinline__ C run(C x) {
    if constexpr (kIsComplex<C>) {
      using R = decltype(x.re);
      const auto magnitude = c_abs(x);
      if (magnitude == 0) return x;
      if (isinf(x.re) != isinf(x.im) && x.re == x.re && x.im == x.im)
        return {isinf(x.re) ? copysign(R(1), x.re) : R(0),
                isinf(x.im) ? copysign(R(1), x.im) : R(0)};
      return {x.re / magnitude, x.im / magnitude};
    } else if constexpr (kIsFloat<C>) {
      return x != x ? x : x > C(0) ? C(1) : x < C(0) ? C(-1) : C(0);
    } else if constexpr (kIsSigned<C>) {
      return x > C(0) ? C(1) : x < C(0) ? C(-1) : C(0);
    } else {
      return x != C(0) ? C(1) : C(0);
    }
  }
};

struct Conj {
  template <class T, class C>
  static __device__ __forceinline__ C run(C x) {
    if constexpr (kIsComplex<C>) {
      return {x.re, -x.im};
    } else {
      return x;
    }
  }
};

struct Real {
  template <class T, class C>
  static __device__ __forceinline__ auto run(C x) {
    if constexpr (kIsComplex<C>) {
      return x.re;
    } else {
      return x;
    }
  }
};

struct Imag {
  template <class T, class C>
  static __device__ __forceinline__ auto run(C x) {
    if constexpr (kIsComplex<C>) {
      return x.im;
    } else {
      return C(0);
    }
  }
};

// --- predicates ---------------------------------------------------------------------------------

struct IsNan {
  template <class T, class C>
  static __device__ __forceinline__ bool run(C x) {
    return is_nan(x);
  }
};

struct IsInf {
  template <class T, class C>
  static __device__ __forceinline__ bool run(C x) {
    if constexpr (kIsComplex<C>) {
      return isinf(x.re) || isinf(x.im);
    } else if constexpr (kIsFloat<C>) {
      return isinf(x);
    } else {
      return false;
    }
  }
};

struct IsFinite {
  template <class T, class C>
  static __device__ __forceinline__ bool run(C x) {
    return !is_nan(x) && !IsInf::run<T>(x);
  }
};

struct SignBit {
  template <class T, class C>
  static __device__ __forceinline__ bool run(C x) {
    if constexpr (kIsFloat<C>) {
      return signbit(x);
    } else if constexpr (kIsSigned<C>) {
      return x < C(0);
    } else {
      return false;
    }
  }
};

}  // namespace gpk
