// Floating-point formats narrower than float, rounded from any value exactly once.
#pragma once

#include <bit>
#include <cstdint>

namespace gpk::sim {

enum class Rounding : std::uint8_t { kNearestEven, kZero, kDown, kUp, kNearestAway };

struct Format {
  int mantissa;       // stored bits
  int exponent;       // bits
  bool has_infinity;  // false: the largest exponent holds numbers, all ones is NaN (e4m3)
};
inline constexpr Format kFormatF16{10, 5, true};
inline constexpr Format kFormatBf16{7, 8, true};
inline constexpr Format kFormatTf32{10, 8, true};
inline constexpr Format kFormatF32{23, 8, true};
inline constexpr Format kFormatE4m3{3, 4, false};
inline constexpr Format kFormatE5m2{2, 5, true};

// Bits of (-1)^negative * magnitude * 2^scale. saturate: no infinity, the largest finite instead.
std::uint32_t round_to(Format format, bool negative, std::uint64_t magnitude, int scale,
                       Rounding rounding, bool saturate);
// NaN gives the format's canonical NaN.
std::uint32_t round_to(Format format, double value, Rounding rounding, bool saturate);
double value_of(Format format, std::uint32_t bits);

// Branch-free twins for whole warps, to nearest even.
inline float float_of_half(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000) << 16;
  const std::uint32_t body = half & 0x7fff;
  // 2^112 moves the exponent; subnormals become normal by the same multiplication.
  const float scaled = std::bit_cast<float>(body << 13) * std::bit_cast<float>(0x77800000u);
  const std::uint32_t special = body << 13 | 0x7f800000u;
  const std::uint32_t bits = body >= 0x7c00 ? special : std::bit_cast<std::uint32_t>(scaled);
  return std::bit_cast<float>(sign | bits);
}

inline std::uint16_t half_of_float(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000;
  const std::uint32_t body = bits & 0x7fffffff;
  // Normal halves: round the 13 bits away, then rebias.
  const std::uint32_t rounded = body + 0xfff + (body >> 13 & 1);
  const std::uint32_t normal = (rounded - 0x38000000u) >> 13;
  // Subnormal halves: an addition in float rounds at the right bit.
  const float shifted = std::bit_cast<float>(body) + 0.5f;
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u;
  std::uint32_t half = body < 0x38800000u ? subnormal : normal;
  half = rounded >= 0x47800000u ? 0x7c00 : half;
  half = body > 0x7f800000u ? 0x7fff : half;
  // NVIDIA's NaN has no sign.
  return static_cast<std::uint16_t>(half | (body > 0x7f800000u ? 0 : sign));
}

inline float float_of_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

inline std::uint16_t bf16_of_float(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return static_cast<std::uint16_t>((bits & 0x7fffffff) > 0x7f800000u ? 0x7fff : rounded);
}

}  // namespace gpk::sim
