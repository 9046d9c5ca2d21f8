// Arithmetic and functions of complex numbers. Accuracy: a few ulp of the larger part. Infinities,
// NaN and signs of zeros follow the array API standard's tables (C99 Annex G), but for products,
// quotients and powers.
#pragma once

#include "common/dtype.cuh"

namespace gpk {

template <class R>
__device__ __forceinline__ Complex<R> operator+(Complex<R> a, Complex<R> b) {
  return {a.re + b.re, a.im + b.im};
}
template <class R>
__device__ __forceinline__ Complex<R> operator-(Complex<R> a, Complex<R> b) {
  return {a.re - b.re, a.im - b.im};
}
template <class R>
__device__ __forceinline__ Complex<R> operator-(Complex<R> a) {
  return {-a.re, -a.im};
}
template <class R>
__device__ __forceinline__ Complex<R> operator*(Complex<R> a, Complex<R> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <class R>
__device__ __forceinline__ bool operator==(Complex<R> a, Complex<R> b) {
  return a.re == b.re && a.im == b.im;
}
template <class R>
__device__ __forceinline__ bool operator!=(Complex<R> a, Complex<R> b) {
  return !(a == b);
}
// NumPy's order: by the real part, then by the imaginary part.
template <class R>
__device__ __forceinline__ bool operator<(Complex<R> a, Complex<R> b) {
  return a.re < b.re || (a.re == b.re && a.im < b.im);
}
template <class R>
__device__ __forceinline__ bool operator<=(Complex<R> a, Complex<R> b) {
  return a.re < b.re || (a.re == b.re && a.im <= b.im);
}
template <class R>
__device__ __forceinline__ bool operator>(Complex<R> a, Complex<R> b) {
  return b < a;
}
template <class R>
__device__ __forceinline__ bool operator>=(Complex<R> a, Complex<R> b) {
  return b <= a;
}

template <class R>
__device__ __forceinline__ Complex<R> scaled(Complex<R> a, R s) {
  return {a.re * s, a.im * s};
}
template <class R>
__device__ __forceinline__ Complex<R> times_i(Complex<R> a) {
  return {-a.im, a.re};
}
template <class R>
__device__ __forceinline__ bool has_nan(Complex<R> a) {
  return a.re != a.re || a.im != a.im;
}
template <class R>
__device__ __forceinline__ bool has_inf(Complex<R> a) {
  return isinf(a.re) || isinf(a.im);
}
template <class R>
__device__ __forceinline__ bool is_finite(Complex<R> a) {
  return isfinite(a.re) && isfinite(a.im);
}

// Smith's division: no overflow of intermediate squares.
template <class R>
__device__ __forceinline__ Complex<R> operator/(Complex<R> a, Complex<R> b) {
  if (fabs(b.re) >= fabs(b.im)) {
    if (b.re == R(0) && b.im == R(0)) {
      const R zero = R(fabs(b.re));
      return {a.re / zero, a.im / zero};
    }
    const R ratio = b.im / b.re;
    const R scale = R(1) / (b.re + b.im * ratio);
    return {(a.re + a.im * ratio) * scale, (a.im - a.re * ratio) * scale};
  }
  const R ratio = b.re / b.im;
  const R scale = R(1) / (b.im + b.re * ratio);
  return {(a.re * ratio + a.im) * scale, (a.im * ratio - a.re) * scale};
}

template <class R>
__device__ __forceinline__ R c_abs(Complex<R> z) {
  return hypot(z.re, z.im);
}

template <class R>
__device__ __forceinline__ Complex<R> c_exp(Complex<R> z) {
  if (z.im == R(0)) return {exp(z.re), z.im};
  R s, c;
  sincos(z.im, &s, &c);
  if (isinf(z.re)) {
    if (z.re < R(0)) return {isfinite(z.im) ? R(0) * c : R(0), isfinite(z.im) ? R(0) * s : R(0)};
    if (!isfinite(z.im)) return {z.re, z.im - z.im};
  }
  const R e = exp(z.re);
  return {e * c, e * s};
}

template <class R>
__device__ __forceinline__ Complex<R> c_log(Complex<R> z) {
  const R big = fmax(fabs(z.re), fabs(z.im));
  const R small = fmin(fabs(z.re), fabs(z.im));
  R magnitude;
  if (big > R(0.5) && big < R(2) && !has_nan(z)) {  // fmax and fmin ignore a NaN
    // log|z| near |z| = 1, where log(hypot) would cancel.
    magnitude = R(0.5) * log1p((big - R(1)) * (big + R(1)) + small * small);
  } else {
    magnitude = log(hypot(z.re, z.im));
  }
  return {magnitude, atan2(z.im, z.re)};
}

template <class R>
__device__ __forceinline__ Complex<R> c_sqrt(Complex<R> z) {
  if (z.re == R(0) && z.im == R(0)) return {R(0), z.im};
  if (isinf(z.im)) return {fabs(z.im), z.im};
  if (isinf(z.re)) {
    const R other = z.im != z.im ? z.im : R(0);
    if (z.re > R(0)) return {z.re, z.im != z.im ? z.im : copysign(R(0), z.im)};
    return {other, z.im != z.im ? z.re : copysign(fabs(z.re), z.im)};
  }
  const R t = sqrt((fabs(z.re) + hypot(z.re, z.im)) * R(0.5));
  if (z.re >= R(0)) return {t, z.im / (R(2) * t)};
  return {fabs(z.im) / (R(2) * t), copysign(t, z.im)};
}

template <class R>
__device__ __forceinline__ Complex<R> c_sinh(Complex<R> z) {
  if (z.im == R(0)) return {sinh(z.re), z.im};
  R s, c;
  sincos(z.im, &s, &c);
  const bool alone = z.re == R(0) || (isinf(z.re) && !isfinite(z.im));
  return {alone ? z.re : sinh(z.re) * c, cosh(z.re) * s};
}

template <class R>
__device__ __forceinline__ Complex<R> c_cosh(Complex<R> z) {
  R s, c;
  sincos(z.im, &s, &c);
  const R sh = sinh(z.re);
  const R re = isinf(z.re) && !isfinite(z.im) ? fabs(z.re) : cosh(z.re) * c;
  const bool zero = sh == R(0) || s == R(0);  // the product of infinity and 0 too
  return {re, zero ? copysign(R(0), sh) * copysign(R(1), s) : sh * s};
}

template <class R>
__device__ __forceinline__ Complex<R> c_tanh(Complex<R> z) {
  if (z.im == R(0)) return {tanh(z.re), z.im};
  if (fabs(z.re) > R(20) && (isfinite(z.im) || isinf(z.re))) {
    // cosh overflows long before tanh differs from 1
    return {copysign(R(1), z.re), copysign(R(0), sin(R(2) * z.im))};
  }
  const R t = tan(z.im);
  const R beta = R(1) + t * t;
  const R s = sinh(z.re);
  const R rho = sqrt(R(1) + s * s);
  if (isinf(t)) return {rho / s, R(1) / t};
  const R denominator = R(1) + beta * s * s;
  return {z.re == R(0) ? z.re : beta * rho * s / denominator, t / denominator};
}

// Inverse functions by Kahan's formulas, which preserve the signs of zeros along branch cuts. With
// an infinite part, the angle is that of z itself; with a NaN and no infinity, z.re + z.im is NaN.
template <class R>
__device__ __forceinline__ Complex<R> c_asinh(Complex<R> z) {
  const Complex<R> a = c_sqrt(Complex<R>{R(1) - z.im, z.re});   // sqrt(1 + iz)
  const Complex<R> b = c_sqrt(Complex<R>{R(1) + z.im, -z.re});  // sqrt(1 - iz)
  const bool finite = is_finite(z);
  const R im = atan2(z.im, finite ? a.re * b.re - a.im * b.im : fabs(z.re));
  if (finite) return {asinh(a.im * b.re - a.re * b.im), im};
  if (has_inf(z)) return {copysign(fabs(isinf(z.re) ? z.re : z.im), z.re), im};
  return {z.re + z.im, z.im == R(0) ? z.im : im};
}

template <class R>
__device__ __forceinline__ Complex<R> c_acos(Complex<R> z) {
  const Complex<R> a = c_sqrt(Complex<R>{R(1) - z.re, -z.im});
  const Complex<R> b = c_sqrt(Complex<R>{R(1) + z.re, z.im});
  const bool finite = is_finite(z);
  const R angle = atan2(finite ? a.re : fabs(z.im), finite ? b.re : z.re);
  if (finite) return {R(2) * angle, asinh(b.re * a.im - b.im * a.re)};
  if (has_inf(z)) return {angle, copysign(fabs(isinf(z.re) ? z.re : z.im), -z.im)};
  return {z.re == R(0) ? R(1.5707963267948966) : angle, z.re + z.im};
}

template <class R>
__device__ __forceinline__ Complex<R> c_acosh(Complex<R> z) {
  const Complex<R> a = c_sqrt(Complex<R>{z.re - R(1), z.im});
  const Complex<R> b = c_sqrt(Complex<R>{z.re + R(1), z.im});
  const bool finite = is_finite(z);
  const R angle = atan2(finite ? a.im : z.im, finite ? b.re : z.re);
  if (finite) return {asinh(a.re * b.re + a.im * b.im), R(2) * angle};
  if (has_inf(z)) return {fabs(isinf(z.re) ? z.re : z.im), angle};
  return {z.re + z.im, z.re == R(0) ? R(1.5707963267948966) : angle};
}

template <class R>
__device__ __forceinline__ Complex<R> c_atanh(Complex<R> z) {
  if (!is_finite(z)) {
    const R right = R(1.5707963267948966);
    if (has_inf(z)) return {copysign(R(0), z.re), z.im != z.im ? z.im : copysign(right, z.im)};
    return {z.re == R(0) ? z.re : z.re + z.im, z.re + z.im};
  }
  const R x = fabs(z.re);  // an odd function: log1p of a negative number would cancel near -1
  const R y2 = z.im * z.im;
  const R one_minus = R(1) - x;
  const R re = R(0.25) * log1p(R(4) * x / (one_minus * one_minus + y2));
  const R im = R(0.5) * atan2(R(2) * z.im, one_minus * (R(1) + x) - y2);
  return {copysign(re, z.re), im};
}

template <class R>
__device__ __forceinline__ Complex<R> c_pow(Complex<R> a, Complex<R> b) {
  if (b.re == R(0) && b.im == R(0)) return {R(1), R(0)};
  if (a.re == R(0) && a.im == R(0)) {
    const R nan = (a.re - a.re) / (a.re - a.re);
    return b.re > R(0) ? Complex<R>{R(0), R(0)} : Complex<R>{nan, nan};
  }
  if (b.im == R(0) && b.re == R(1)) return a;
  if (b.im == R(0) && b.re == R(2)) return a * a;
  return c_exp(b * c_log(a));
}

}  // namespace gpk
