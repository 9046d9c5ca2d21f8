// The conversions of native/kernels/common/half_ptx.cuh, in C++.
#pragma once

namespace gpk::ptx {

inline float from_half(unsigned short bits) {
  const unsigned sign = static_cast<unsigned>(bits & 0x8000) << 16;
  const unsigned exponent = (bits >> 10) & 31u;
  const unsigned mantissa = bits & 0x3ffu;
  if (exponent == 0) {
    const float tiny = std::ldexp(static_cast<float>(mantissa), -24);
    return sign != 0 ? -tiny : tiny;
  }
  const unsigned wide = exponent == 31 ? 0xffu : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
}

// To nearest, ties to even. Through a float64 that holds every float32 exactly.
inline unsigned short to_half(double x) {
  const auto sign = static_cast<unsigned short>(std::signbit(x) ? 0x8000 : 0);
  const double magnitude = std::fabs(x);
  if (std::isnan(x)) return 0x7fff;
  if (magnitude == 0) return sign;
  if (magnitude >= 65520.0) return static_cast<unsigned short>(sign | 0x7c00);
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  exponent = std::max(exponent, -13);  // subnormal from 2^-14 down
  const auto steps = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 11 - exponent)));
  // A carry out of the mantissa goes into the exponent.
  return static_cast<unsigned short>(sign | (((exponent + 13) << 10) + steps));
}

inline unsigned short to_bfloat(float x) {
  const auto bits = std::bit_cast<unsigned>(x);
  if (std::isnan(x)) return 0x7fff;
  return static_cast<unsigned short>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

inline float max_or_nan(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::nanf("");
  return a > b || (a == b && std::signbit(b)) ? a : b;
}
inline float min_or_nan(float a, float b) { return -max_or_nan(-a, -b); }

inline unsigned to_halves(float low, float high) {
  return static_cast<unsigned>(to_half(low)) | static_cast<unsigned>(to_half(high)) << 16;
}
inline unsigned to_bfloats(float low, float high) {
  return static_cast<unsigned>(to_bfloat(low)) | static_cast<unsigned>(to_bfloat(high)) << 16;
}

inline unsigned fma_halves(unsigned a, unsigned b, unsigned c) {
  unsigned y = 0;
  for (int shift = 0; shift < 32; shift += 16) {
    const auto of = [&](unsigned word) {
      return static_cast<double>(from_half(static_cast<unsigned short>(word >> shift)));
    };
    y |= static_cast<unsigned>(to_half(of(a) * of(b) + of(c))) << shift;
  }
  return y;
}

inline unsigned fma_bfloats(unsigned a, unsigned b, unsigned c) {
  unsigned y = 0;
  for (int shift = 0; shift < 32; shift += 16) {
    const auto of = [&](unsigned word) { return std::bit_cast<float>(word >> shift << 16); };
    y |= static_cast<unsigned>(to_bfloat(std::fma(of(a), of(b), of(c)))) << shift;
  }
  return y;
}

}  // namespace gpk::ptx

namespace gpk {

inline void hide(unsigned&) {}

}  // namespace gpk
