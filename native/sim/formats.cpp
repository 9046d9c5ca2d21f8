#include "sim/formats.h"

#include <cmath>

namespace gpk::sim {

std::uint32_t round_to(Format format, bool negative, std::uint64_t magnitude, int scale,
                       Rounding rounding, bool saturate) {
  const int bias = (1 << (format.exponent - 1)) - 1;
  const int max_field = (1 << format.exponent) - 1;
  const std::uint32_t sign = negative ? std::uint32_t{1} << (format.mantissa + format.exponent) : 0;
  if (magnitude == 0) return sign;
  const int top = 63 - std::countl_zero(magnitude);  // magnitude in [2^top, 2^(top+1))
  int exponent = top + scale;
  int field = exponent + bias;
  if (field < 1) {  // subnormal
    field = 0;
    exponent = 1 - bias;
  }
  // Units of the last place: 2^(exponent - mantissa).
  const int shift = exponent - format.mantissa - scale;
  std::uint64_t kept = 0;
  bool half = false;
  bool sticky = false;
  if (shift <= 0) {
    kept = magnitude << -shift;
  } else if (shift > 64) {
    sticky = true;
  } else {
    kept = shift == 64 ? 0 : magnitude >> shift;
    half = (magnitude >> (shift - 1) & 1) != 0;
    sticky = shift > 1 && (magnitude << (65 - shift)) != 0;
  }
  bool up = false;
  switch (rounding) {
    case Rounding::kNearestEven: up = half && (sticky || (kept & 1) != 0); break;
    case Rounding::kNearestAway: up = half; break;
    case Rounding::kZero: break;
    case Rounding::kDown: up = negative && (half || sticky); break;
    case Rounding::kUp: up = !negative && (half || sticky); break;
  }
  kept += up ? 1 : 0;
  // A carry out of the mantissa moves into the exponent by itself.
  std::uint64_t body = kept;
  if (field > 0) body = (static_cast<std::uint64_t>(field - 1) << format.mantissa) + kept;
  const std::uint64_t infinity = static_cast<std::uint64_t>(max_field) << format.mantissa;
  const std::uint64_t largest =
      format.has_infinity ? infinity - 1 : infinity + (std::uint64_t{1} << format.mantissa) - 2;
  if (body > largest) {
    const bool away = rounding == Rounding::kNearestEven || rounding == Rounding::kNearestAway ||
                      (rounding == Rounding::kUp && !negative) ||
                      (rounding == Rounding::kDown && negative);
    body = saturate || !away ? largest : (format.has_infinity ? infinity : largest + 1);
  }
  return sign | static_cast<std::uint32_t>(body);
}

std::uint32_t round_to(Format format, double value, Rounding rounding, bool saturate) {
  if (std::isnan(value)) {
    if (!format.has_infinity) return (1u << (format.mantissa + format.exponent)) - 1;
    return (1u << (format.mantissa + format.exponent)) - 1;
  }
  const bool negative = std::signbit(value);
  if (std::isinf(value)) {
    // Large enough for every format.
    if (saturate || !format.has_infinity)
      return round_to(format, negative, 1, 2000, Rounding::kNearestEven, saturate);
    return (negative ? 1u << (format.mantissa + format.exponent) : 0) |
           ((1u << format.exponent) - 1) << format.mantissa;
  }
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(value);
  const int field = static_cast<int>(bits >> 52 & 0x7ff);
  std::uint64_t magnitude = bits & ((std::uint64_t{1} << 52) - 1);
  if (field != 0) magnitude |= std::uint64_t{1} << 52;
  return round_to(format, negative, magnitude, (field == 0 ? 1 : field) - 1075, rounding, saturate);
}

double value_of(Format format, std::uint32_t bits) {
  const int bias = (1 << (format.exponent - 1)) - 1;
  const bool negative = (bits >> (format.mantissa + format.exponent) & 1) != 0;
  const int field = static_cast<int>(bits >> format.mantissa & ((1u << format.exponent) - 1));
  const std::uint32_t mantissa = bits & ((1u << format.mantissa) - 1);
  double result = 0;
  const bool last = field == (1 << format.exponent) - 1;
  if (last && format.has_infinity)
    result = mantissa != 0 ? std::nan("") : HUGE_VAL;
  else if (last && mantissa == (1u << format.mantissa) - 1)
    result = std::nan("");
  else if (field == 0)
    result = std::ldexp(static_cast<double>(mantissa), 1 - bias - format.mantissa);
  else
    result = std::ldexp(static_cast<double>(mantissa | 1u << format.mantissa),
                        field - bias - format.mantissa);
  return negative ? -result : result;
}

}  // namespace gpk::sim
