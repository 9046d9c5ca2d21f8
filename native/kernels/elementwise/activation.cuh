// Activation functors, and binary functions of floating-point numbers.
#pragma once

#include "elementwise/special.cuh"

namespace gpk {

// 1 / (1 + exp(-x)); no overflow: exp(-x) = inf gives 0.
template <class T, class C>
__device__ __forceinline__ C sigmoid(C x) {
  if constexpr (kIsNarrowFloat<T>) {
    return __fdividef(1.0f, 1.0f + __expf(-x));
  } else {
    return C(1) / (C(1) + exp(-x));
  }
}

struct Sigmoid {
  template <class T, class C>
  static __device__ __forceinline__ C run(C x) {
    return sigmoid<T>(x);
  }
};

struct Silu {
  template <class T, class C>
  static __device__ __forceinline__ C run(C x) {
    return x * sigmoid<T>(x);
  }
};

// The tanh approximation: 0.5 x (1 + tanh(u)) = x sigmoid(2 u), u = sqrt(2/pi) (x + 0.044715 x**3).
struct Gelu {
  template <class T, class C>
  static __device__ __forceinline__ C run(C x) {
    const C u = C(0.7978845608028654) * (x + C(0.044715) * x * x * x);
    const C s = sigmoid<T>(C(2) * u);
    return s == C(0) ? C(0) * x : x * s;
  }
};

// erfc(z) for z >= 0 to about 2^-20 relative: a polynomial in 1 / (2 + z) under the exponential,
// after the Chebyshev fit of Numerical Recipes.
__device__ __forceinline__ float short_erfc(float z) {
  const float t = __fdividef(2.0f, 2.0f + z);
  float p = 0.17087277f;
  p = fmaf(p, t, -0.82215223f);
  p = fmaf(p, t, 1.48851587f);
  p = fmaf(p, t, -1.13520398f);
  p = fmaf(p, t, 0.27886807f);
  p = fmaf(p, t, -0.18628806f);
  p = fmaf(p, t, 0.09678418f);
  p = fmaf(p, t, 0.37409196f);
  p = fmaf(p, t, 1.00002368f);
  p = fmaf(p, t, -1.26551223f);
  return t * __expf(fmaf(-z, z, p));
}

struct GeluErf {
  template <class T, class C>
  static __device__ __forceinline__ C run(C x) {
    if constexpr (kIsNarrowFloat<T>) {
      const float tail = short_erfc(fabsf(x) * 0.7071067811865476f);
      return 0.5f * x * (x < 0.0f ? tail : 2.0f - tail);
    } else {
      return C(0.5) * x * erfc(C(-0.7071067811865476) * x);
    }
  }
};

struct QuickGelu {
  template <class T, class C>
  static __device__ __forceinline__ C run(C x) {
    return x * sigmoid<T>(C(1.702) * x);
  }
};

// log(1 + exp(x)), without overflow.
struct Softplus {
  template <class T, class C>
  static __device__ __forceinline__ C run(C x) {
    return fmax(x, C(0)) + log1p(exp(-fabs(x)));
  }
};

struct LeakyRelu {
  template <class T, class C>
  static __device__ __forceinline__ C run(C x, C slope) {
    return x < C(0) ? x * slope : x;
  }
};

struct Snake {
  template <class T, class C>
  static __device__ __forceinline__ C run(C x, C alpha) {
    const C s = sin(alpha * x);
    return x + s * s / alpha;
  }
};

struct SiluMultiply {
  template <class T, class C>
  static __device__ __forceinline__ C run(C gate, C up) {
    return Silu::run<T>(gate) * up;
  }
};

struct GeluMultiply {
  template <class T, class C>
  static __device__ __forceinline__ C run(C gate, C up) {
    return Gelu::run<T>(gate) * up;
  }
};

struct Relu {
  template <class T, class C>
  static __device__ __forceinline__ C run(C x) {
    if constexpr (kIsSigned<C>) {
      return x < C(0) ? C(0) : x;
    } else {
      return x;
    }
  }
};

struct Relu2 {
  template <class T, class C>
  static __device__ __forceinline__ C run(C x) {
    const C y = Relu::run<T>(x);
    return Multiply::run<T>(y, y);
  }
};

// --- binary, floating point ---------------------------------------------------------------------

struct Atan2 {
  template <class T, class C>
  static __device__ __forceinline__ C run(C y, C x) {
    return atan2(y, x);
  }
};

struct Hypot {
  template <class T, class C>
  static __device__ __forceinline__ C run(C a, C b) {
    return hypot(a, b);
  }
};

struct Copysign {
  template <class T, class C>
  static __device__ __forceinline__ C run(C a, C b) {
    return copysign(a, b);
  }
};

struct Heaviside {
  template <class T, class C>
  static __device__ __forceinline__ C run(C x, C at_zero) {
    return x != x ? x : x == C(0) ? at_zero : x < C(0) ? C(0) : C(1);
  }
};

struct Logaddexp {
  template <class T, class C>
  static __device__ __forceinline__ C run(C a, C b) {
    if (a == b) return a + C(0.6931471805599453);  // also equal infinities
    const C big = a > b ? a : b;
    return a != a || b != b ? a + b : big + log1p(exp(-fabs(a - b)));
  }
};

struct Logaddexp2 {
  template <class T, class C>
  static __device__ __forceinline__ C run(C a, C b) {
    if (a == b) return a + C(1);
    const C big = a > b ? a : b;
    return a != a || b != b ? a + b : big + log1p(exp2(-fabs(a - b))) * C(1.4426950408889634);
  }
};

// One step of the stored type, not of the compute type.
struct Nextafter {
  template <class T, class C>
  static __device__ __forceinline__ auto run(C x, C y) {
    if constexpr (kIsNarrowFloat<T>) {
      if (x != x || y != y) return convert<T>(x + y);
      if (x == y) return convert<T>(y);
      if (x == C(0)) return T{static_cast<unsigned short>(y < C(0) ? 0x8001 : 0x0001)};
      const T at = convert<T>(x);
      const bool away = (x < y) == (x > C(0));
      return T{static_cast<unsigned short>(away ? at.bits + 1 : at.bits - 1)};
    } else {
      return nextafter(x, y);
    }
  }
};

// Same where the stored type is known, but not the compute type (map_any).
template <class Stored>
struct NextafterOf {
  template <class T, class C>
  static __device__ __forceinline__ C run(C x, C y) {
    return convert<C>(Nextafter::run<Stored>(x, y));
  }
};

// Replaces NaN, +infinity and -infinity.
struct NanToNum {
  template <class T, class C>
  static __device__ __forceinline__ C run(C x, C nan, C positive, C negative) {
    if constexpr (kIsComplex<C>) {
      using R = PartOf<C>;
      return {NanToNum::run<R>(x.re, nan.re, positive.re, negative.re),
              NanToNum::run<R>(x.im, nan.re, positive.re, negative.re)};
    } else if constexpr (kIsFloat<C>) {
      return x != x ? nan : !isinf(x) ? x : x > C(0) ? positive : negative;
    } else {
      return x;
    }
  }
};

}  // namespace gpk
