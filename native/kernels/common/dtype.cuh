// Element types without CUDA headers: storage structs with layouts shared with the host, the
// arithmetic type (Compute<T>), and conversions between any two of them. Rounding is to nearest
// even; float to integer truncates; conversion to bool tests for nonzero.
#pragma once

#include "common/half_ptx.cuh"

namespace gpk {

struct alignas(2) float16 {
  unsigned short bits;
};

struct alignas(2) bfloat16 {
  unsigned short bits;
};

struct float8_e4m3fn {
  unsigned char bits;
};

struct float8_e5m2 {
  unsigned char bits;
};

template <class R>
struct alignas(2 * sizeof(R)) Complex {
  R re, im;
};
using complex64 = Complex<float>;
using complex128 = Complex<double>;

template <class T>
struct ComputeOf {
  using Type = T;
};
template <>
struct ComputeOf<signed char> {
  using Type = int;
};
template <>
struct ComputeOf<short> {
  using Type = int;
};
template <>
struct ComputeOf<unsigned char> {
  using Type = unsigned;
};
template <>
struct ComputeOf<unsigned short> {
  using Type = unsigned;
};
template <>
struct ComputeOf<float16> {
  using Type = float;
};
template <>
struct ComputeOf<bfloat16> {
  using Type = float;
};
template <>
struct ComputeOf<float8_e4m3fn> {
  using Type = float;
};
template <>
struct ComputeOf<float8_e5m2> {
  using Type = float;
};
template <class T>
using Compute = typename ComputeOf<T>::Type;

// --- to the compute type ------------------------------------------------------------------------

__device__ __forceinline__ float to_compute(float16 x) { return ptx::from_half(x.bits); }

__device__ __forceinline__ float to_compute(bfloat16 x) {
  return __uint_as_float(static_cast<unsigned>(x.bits) << 16);
}

// Both 8-bit formats have at most five exponent bits: exact in float16.
__device__ __forceinline__ float to_compute(float8_e5m2 x) {
  return to_compute(float16{static_cast<unsigned short>(x.bits << 8)});
}

__device__ __forceinline__ float to_compute(float8_e4m3fn x) {
  const unsigned magnitude = x.bits & 0x7fu;
  // Exponent bias 7 against float32's 127, mantissa at the top: a multiply normalises subnormals.
  float y = __uint_as_float(magnitude << 20) * 0x1p120f;
  if (magnitude == 0x7fu) y = __uint_as_float(0x7fc00000u);
  return __uint_as_float(__float_as_uint(y) | (static_cast<unsigned>(x.bits & 0x80u) << 24));
}

template <class T>
__device__ __forceinline__ Compute<T> to_compute(T x) {
  return x;
}

// --- from any type ------------------------------------------------------------------------------

namespace detail {

// To an 8-bit float with kMantissa mantissa bits and minimum exponent kMinExp; `overflow` is stored
// for values that round beyond `limit` (ml_dtypes: NaN for e4m3fn, infinity for e5m2).
template <int kMantissa, int kMinExp>
__device__ __forceinline__ unsigned char to_float8(float x, float limit, unsigned overflow,
                                                   unsigned nan) {
  const unsigned sign = (__float_as_uint(x) >> 24) & 0x80u;
  const float magnitude = fabsf(x);
  if (x != x) return static_cast<unsigned char>(sign | nan);
  if (magnitude >= limit) return static_cast<unsigned char>(sign | overflow);
  const int exponent = max(static_cast<int>(__float_as_uint(magnitude) >> 23) - 127, kMinExp);
  // In ulp; a carry out of the mantissa correctly increments the exponent.
  const float unit = __uint_as_float(static_cast<unsigned>(127 + kMantissa - exponent) << 23);
  const int steps = __float2int_rn(magnitude * unit);
  return static_cast<unsigned char>(
      sign | static_cast<unsigned>(((exponent - kMinExp) << kMantissa) + steps));
}

}  // namespace detail

template <class To>
struct Convert {
  template <class From>
  static __device__ __forceinline__ To run(From x) {
    return static_cast<To>(x);
  }
};

template <>
struct Convert<bool> {
  template <class From>
  static __device__ __forceinline__ bool run(From x) {
    return x != From(0);
  }
};

template <>
struct Convert<float16> {
  static __device__ __forceinline__ float16 run(double x) { return {ptx::to_half(x)}; }
  template <class From>
  static __device__ __forceinline__ float16 run(From x) {
    return {ptx::to_half(static_cast<float>(x))};
  }
};

template <>
struct Convert<bfloat16> {
  template <class From>
  static __device__ __forceinline__ bfloat16 run(From x) {
    return {ptx::to_bfloat(static_cast<float>(x))};
  }
};

template <>
struct Convert<float8_e4m3fn> {
  template <class From>
  static __device__ __forceinline__ float8_e4m3fn run(From x) {
    // 464 is halfway between 448, the largest value, and the next one there would be.
    const float y = static_cast<float>(x);
    return {fabsf(y) == 464.0f ? static_cast<unsigned char>(y < 0.0f ? 0xfe : 0x7e)
                               : detail::to_float8<3, -6>(y, 464.0f, 0x7f, 0x7f)};
  }
};

template <>
struct Convert<float8_e5m2> {
  template <class From>
  static __device__ __forceinline__ float8_e5m2 run(From x) {
    return {detail::to_float8<2, -14>(static_cast<float>(x), 61440.0f, 0x7c, 0x7e)};
  }
};

template <class R>
struct Convert<Complex<R>> {
  template <class From>
  static __device__ __forceinline__ Complex<R> run(From x) {
    return {static_cast<R>(x), R(0)};
  }
  template <class S>
  static __device__ __forceinline__ Complex<R> run(Complex<S> x) {
    return {static_cast<R>(x.re), static_cast<R>(x.im)};
  }
};

template <class To, class From>
__device__ __forceinline__ To convert(From x) {
  return Convert<To>::run(to_compute(x));
}

// A real target keeps the real part; bool tests both parts.
template <class To, class S>
struct ConvertComplex {
  static __device__ __forceinline__ To run(Complex<S> x) { return Convert<To>::run(x.re); }
};
template <class S>
struct ConvertComplex<bool, S> {
  static __device__ __forceinline__ bool run(Complex<S> x) { return x.re != S(0) || x.im != S(0); }
};
template <class R, class S>
struct ConvertComplex<Complex<R>, S> {
  static __device__ __forceinline__ Complex<R> run(Complex<S> x) {
    return Convert<Complex<R>>::run(x);
  }
};
template <class To, class S>
__device__ __forceinline__ To convert(Complex<S> x) {
  return ConvertComplex<To, S>::run(x);
}

// The name other families use for the conversion from the compute type.
template <class T, class C>
__device__ __forceinline__ T from_compute(C x) {
  return convert<T>(x);
}

// --- properties ---------------------------------------------------------------------------------

template <class T>
inline constexpr bool kIsComplex = false;
template <class R>
inline constexpr bool kIsComplex<Complex<R>> = true;

template <class A, class B>
inline constexpr bool kIsSame = false;
template <class A>
inline constexpr bool kIsSame<A, A> = true;

template <class T>
inline constexpr bool kIsFloat = kIsSame<T, float> || kIsSame<T, double>;

template <class T>
inline constexpr bool kIsBool = kIsSame<T, bool>;

template <class T>
inline constexpr bool kIsSigned = !kIsComplex<T>;
template <>
inline constexpr bool kIsSigned<bool> = false;
template <>
inline constexpr bool kIsSigned<unsigned> = false;
template <>
inline constexpr bool kIsSigned<unsigned long long> = false;

// Sixteen bits or fewer: the result is rounded so coarsely that fast functions suffice.
template <class T>
inline constexpr bool kIsNarrowFloat = kIsSame<T, float16> || kIsSame<T, bfloat16>;

}  // namespace gpk
