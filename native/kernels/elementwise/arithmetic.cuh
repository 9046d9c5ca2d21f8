// Functors: arithmetic, comparison, bits, selection. run<T>(...) gets operands in the compute type
// of T, the operands' common dtype, and returns anything convertible to the result's dtype.
// Integers wrap; integer division by zero gives 0, as in NumPy.
#pragma once

#include "common/complex.cuh"
#include "common/dtype.cuh"

namespace gpk {

// Signed overflow is undefined in C++; integer arithmetic is done unsigned.
template <class C>
struct WrapOf {
  using Type = C;
};
template <>
struct WrapOf<int> {
  using Type = unsigned;
};
template <>
struct WrapOf<long long> {
  using Type = unsigned long long;
};
template <class C>
using Wrap = typename WrapOf<C>::Type;

template <class C>
__device__ __forceinline__ bool is_nan(C x) {
  if constexpr (kIsComplex<C>) {
    return has_nan(x);
  } else if constexpr (kIsFloat<C>) {
    return x != x;
  } else {
    return false;
  }
}

// Each op rounds once: otherwise the compiler would contract the product and sum of two fused ops
// into one fma, and the result would depend on what was fused.
template <class C>
__device__ __forceinline__ C rounded_sum(C a, C b) {
  if constexpr (kIsSame<C, float>) {
    return __fadd_rn(a, b);
  } else if constexpr (kIsSame<C, double>) {
    return __dadd_rn(a, b);
  } else {
    return static_cast<C>(static_cast<Wrap<C>>(a) + static_cast<Wrap<C>>(b));
  }
}

template <class C>
__device__ __forceinline__ C rounded_product(C a, C b) {
  if constexpr (kIsSame<C, float>) {
    return __fmul_rn(a, b);
  } else if constexpr (kIsSame<C, double>) {
    return __dmul_rn(a, b);
  } else {
    return static_cast<C>(static_cast<Wrap<C>>(a) * static_cast<Wrap<C>>(b));
  }
}

struct Copy {
  template <class T, class C>
  static __device__ __forceinline__ C run(C x) {
    return x;
  }
};

struct Add {
  template <class T, class C>
  static __device__ __forceinline__ C run(C a, C b) {
    if constexpr (kIsBool<C>) {
      return a || b;
    } else {
      return rounded_sum(a, b);
    }
  }
};

struct Subtract {
  template <class T, class C>
  static __device__ __forceinline__ C run(C a, C b) {
    if constexpr (kIsFloat<C>) {
      return rounded_sum(a, -b);
    } else {
      return static_cast<C>(static_cast<Wrap<C>>(a) - static_cast<Wrap<C>>(b));
    }
  }
};

struct Multiply {
  template <class T, class C>
  static __device__ __forceinline__ C run(C a, C b) {
    if constexpr (kIsBool<C>) {
      return a && b;
    } else {
      return rounded_product(a, b);
    }
  }
};

struct Divide {
  template <class T, class C>
  static __device__ __forceinline__ C run(C a, C b) {
    return a / b;
  }
};

template <class C>
__device__ __forceinline__ C python_remainder(C a, C b) {
  if constexpr (kIsFloat<C>) {
    C m = fmod(a, b);  // NaN for b = 0, and propagated
    if (m != C(0)) {
      if ((b < C(0)) != (m < C(0))) m += b;
    } else {
      m = copysign(C(0), b);
    }
    return m;
  } else if constexpr (!kIsSigned<C>) {
    return b == C(0) ? C(0) : a % b;
  } else {
    if (b == C(0) || b == C(-1)) return C(0);
    const C m = a % b;
    return m != C(0) && (m < C(0)) != (b < C(0)) ? m + b : m;
  }
}

struct Remainder {
  template <class T, class C>
  static __device__ __forceinline__ C run(C a, C b) {
    return python_remainder(a, b);
  }
};

struct FloorDivide {
  template <class T, class C>
  static __device__ __forceinline__ C run(C a, C b) {
    if constexpr (kIsFloat<C>) {
      // As the standard requires: infinities divide like numbers, rounded down.
      if (b == C(0) || isinf(a) || isinf(b)) return floor(a / b);
      const C m = fmod(a, b);
      C q = (a - m) / b;
      if (m != C(0) && (b < C(0)) != (m < C(0))) q -= C(1);
      if (q == C(0)) return copysign(C(0), a / b);
      const C f = floor(q);
      return q - f > C(0.5) ? f + C(1) : f;
    } else if constexpr (!kIsSigned<C>) {
      return b == C(0) ? C(0) : a / b;
    } else {
      if (b == C(0)) return C(0);
      if (b == C(-1)) return static_cast<C>(Wrap<C>(0) - static_cast<Wrap<C>>(a));
      const C q = a / b;
      return a % b != C(0) && (a < C(0)) != (b < C(0)) ? q - C(1) : q;
    }
  }
};

struct Fmod {
  template <class T, class C>
  static __device__ __forceinline__ C run(C a, C b) {
    if constexpr (kIsFloat<C>) {
      return fmod(a, b);
    } else if constexpr (!kIsSigned<C>) {
      return b == C(0) ? C(0) : a % b;
    } else {
      return b == C(0) || b == C(-1) ? C(0) : a % b;
    }
  }
};

struct Power {
  template <class T, class C>
  static __device__ __forceinline__ C run(C a, C b) {
    if constexpr (kIsComplex<C>) {
      return c_pow(a, b);
    } else if constexpr (kIsFloat<C>) {
      return pow(a, b);
    } else {
      if constexpr (kIsSigned<C>) {  // 1 / a**-b, which is an integer only for a = 1 and a = -1
        if (b < C(0))
          return a == C(1) ? C(1) : a == C(-1) ? (b % C(2) != C(0) ? C(-1) : C(1)) : C(0);
      }
      Wrap<C> base = static_cast<Wrap<C>>(a);
      Wrap<C> result = 1;
      for (Wrap<C> e = static_cast<Wrap<C>>(b); e != 0; e >>= 1) {
        if ((e & 1) != 0) result *= base;
        base *= base;
      }
      return static_cast<C>(result);
    }
  }
};

struct Maximum {  // NaN propagates
  template <class T, class C>
  static __device__ __forceinline__ C run(C a, C b) {
    return is_nan(a) || a >= b ? a : b;
  }
};

struct Minimum {
  template <class T, class C>
  static __device__ __forceinline__ C run(C a, C b) {
    return is_nan(a) || a <= b ? a : b;
  }
};

struct Fmax {  // NaN is ignored
  template <class T, class C>
  static __device__ __forceinline__ C run(C a, C b) {
    return is_nan(b) || a >= b ? a : b;
  }
};

struct Fmin {
  template <class T, class C>
  static __device__ __forceinline__ C run(C a, C b) {
    return is_nan(b) || a <= b ? a : b;
  }
};

struct Clip {
  template <class T, class C>
  static __device__ __forceinline__ C run(C x, C low, C high) {
    return Minimum::run<T>(Maximum::run<T>(x, low), high);
  }
};

struct Where {
  template <class T, class C>
  static __device__ __forceinline__ C run(C condition, C a, C b) {
    return convert<bool>(condition) ? a : b;
  }
};

struct Gcd {
  template <class T, class C>
  static __device__ __forceinline__ C run(C a, C b) {
    Wrap<C> x = static_cast<Wrap<C>>(a);
    Wrap<C> y = static_cast<Wrap<C>>(b);
    if constexpr (kIsSigned<C>) {
      if (a < C(0)) x = Wrap<C>(0) - x;
      if (b < C(0)) y = Wrap<C>(0) - y;
    }
    while (y != 0) {
      const Wrap<C> r = x % y;
      x = y;
      y = r;
    }
    return static_cast<C>(x);
  }
};

struct Lcm {
  template <class T, class C>
  static __device__ __forceinline__ C run(C a, C b) {
    const Wrap<C> divisor = static_cast<Wrap<C>>(Gcd::run<T>(a, b));
    if (divisor == 0) return C(0);
    Wrap<C> x = static_cast<Wrap<C>>(a);
    Wrap<C> y = static_cast<Wrap<C>>(b);
    if constexpr (kIsSigned<C>) {
      if (a < C(0)) x = Wrap<C>(0) - x;
      if (b < C(0)) y = Wrap<C>(0) - y;
    }
    return static_cast<C>(x / divisor * y);
  }
};

// --- comparison and logic -----------------------------------------------------------------------

#define GPK_BINARY_TEST(Name, expression)                  \
  struct Name {                                            \
    template <class T, class C>                            \
    static __device__ __forceinline__ bool run(C a, C b) { \
      return expression;                                   \
    }                                                      \
  };
GPK_BINARY_TEST(Equal, a == b)
GPK_BINARY_TEST(NotEqual, a != b)
GPK_BINARY_TEST(Less, a < b)
GPK_BINARY_TEST(LessEqual, a <= b)
GPK_BINARY_TEST(Greater, a > b)
GPK_BINARY_TEST(GreaterEqual, a >= b)
GPK_BINARY_TEST(LogicalAnd, convert<bool>(a) && convert<bool>(b))
GPK_BINARY_TEST(LogicalOr, convert<bool>(a) || convert<bool>(b))
GPK_BINARY_TEST(LogicalXor, convert<bool>(a) != convert<bool>(b))
#undef GPK_BINARY_TEST

struct LogicalNot {
  template <class T, class C>
  static __device__ __forceinline__ bool run(C a) {
    return !convert<bool>(a);
  }
};

// --- bits ---------------------------------------------------------------------------------------

struct BitwiseAnd {
  template <class T, class C>
  static __device__ __forceinline__ C run(C a, C b) {
    return a & b;
  }
};

struct BitwiseOr {
  template <class T, class C>
  static __device__ __forceinline__ C run(C a, C b) {
    return a | b;
  }
};

struct BitwiseXor {
  template <class T, class C>
  static __device__ __forceinline__ C run(C a, C b) {
    return a ^ b;
  }
};

struct BitwiseInvert {
  template <class T, class C>
  static __device__ __forceinline__ C run(C a) {
    if constexpr (kIsBool<C>) {
      return !a;
    } else {
      return ~a;
    }
  }
};

// Shifts by the width or more (negative counts are huge) leave zero, or the sign.
struct LeftShift {
  template <class T, class C>
  static __device__ __forceinline__ C run(C a, C b) {
    const Wrap<C> count = static_cast<Wrap<C>>(b);
    return count < 8 * sizeof(C) ? static_cast<C>(static_cast<Wrap<C>>(a) << count) : C(0);
  }
};

struct RightShift {
  template <class T, class C>
  static __device__ __forceinline__ C run(C a, C b) {
    const Wrap<C> count = static_cast<Wrap<C>>(b);
    if (count < 8 * sizeof(C)) return a >> count;
    if constexpr (kIsSigned<C>) return a < C(0) ? C(-1) : C(0);
    return C(0);
  }
};

}  // namespace gpk
