// Conversions between any two types, one lane at a time; alu_kernels.h has the common ones.
#include <cfenv>
#include <cmath>

#include "sim/alu.h"
#include "sim/machine.h"

namespace gpk::sim {
namespace {

struct Value {
  bool is_float;
  bool negative = false;
  std::uint64_t magnitude = 0;  // of an integer
  double number = 0;            // of a float
  bool is_double = false;       // whose NaN keeps its payload
};

Format format_of(Type type) {
  switch (type) {
    case Type::kF16:
    case Type::kF16x2: return kFormatF16;
    case Type::kBf16:
    case Type::kBf16x2: return kFormatBf16;
    case Type::kTf32: return kFormatTf32;
    case Type::kE4m3:
    case Type::kE4m3x2: return kFormatE4m3;
    case Type::kE5m2:
    case Type::kE5m2x2: return kFormatE5m2;
    default: return kFormatF32;
  }
}

Value read(const Warp& warp, Cell cell, Type type, unsigned lane) {
  const unsigned bytes = bytes_of(type);
  const unsigned stride = bytes < 2 ? 2 : bytes;
  std::uint64_t bits = 0;
  std::memcpy(&bits, warp.source<std::byte>(cell) + std::size_t{stride} * lane, bytes);
  Value value{is_float(type)};
  if (type == Type::kF64) {
    value.number = std::bit_cast<double>(bits);
    value.is_double = true;
  } else if (type == Type::kF32) {
    value.number = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  } else if (value.is_float) {
    value.number = value_of(format_of(type), static_cast<std::uint32_t>(bits));
  } else {
    const unsigned shift = 64 - 8 * bytes;
    if (is_signed(type) && static_cast<std::int64_t>(bits << shift) < 0) {
      value.negative = true;
      value.magnitude =
          ~(static_cast<std::uint64_t>(static_cast<std::int64_t>(bits << shift) >> shift)) + 1;
    } else {
      value.magnitude = bits;
    }
  }
  return value;
}

double integral(double x, Rounding rounding) {
  switch (rounding) {
    case Rounding::kZero: return std::trunc(x);
    case Rounding::kDown: return std::floor(x);
    case Rounding::kUp: return std::ceil(x);
    default: return std::nearbyint(x);
  }
}

std::uint64_t to_integer(const Value& value, Type to, Type from, Rounding rounding, bool saturate) {
  const unsigned bits = bytes_of(to) * 8;
  const std::uint64_t high = is_signed(to) ? (std::uint64_t{1} << (bits - 1)) - 1
                             : bits == 64  ? ~std::uint64_t{0}
                                           : (std::uint64_t{1} << bits) - 1;
  const std::uint64_t low = is_signed(to) ? std::uint64_t{1} << (bits - 1) : 0;  // its magnitude
  bool negative = value.negative;
  std::uint64_t magnitude = value.magnitude;
  if (value.is_float) {
    if (std::isnan(value.number))
      return from != Type::kF64 && bits < 64 ? 0 : std::uint64_t{1} << (bits - 1);
    const double x = integral(value.number, rounding);
    negative = x < 0;
    const double size = std::fabs(x);
    magnitude = size >= 0x1p64 ? ~std::uint64_t{0} : static_cast<std::uint64_t>(size);
    saturate = true;
  }
  if (saturate) {
    if (negative && magnitude > low) magnitude = low;
    if (!negative && magnitude > high) magnitude = high;
  }
  return negative ? ~magnitude + 1 : magnitude;
}

// The sign, and the upper bits of the payload. Other conversions give all ones.
std::uint32_t narrow_nan(const Format& format, double nan) {
  const auto bits = std::bit_cast<std::uint64_t>(nan);
  const std::uint64_t exponent = (std::uint64_t{1} << format.exponent) - 1;
  const std::uint64_t payload = (bits & ((std::uint64_t{1} << 52) - 1)) >> (52 - format.mantissa);
  const std::uint64_t quiet = std::uint64_t{1} << (format.mantissa - 1);
  return static_cast<std::uint32_t>((bits >> 63) << (format.mantissa + format.exponent) |
                                    exponent << format.mantissa | quiet | payload);
}

std::uint64_t to_float(const Value& value, Type to, unsigned mode, unsigned flags) {
  const auto rounding = static_cast<Rounding>(mode & 7);
  const bool saturate = (flags & kConvertSatfinite) != 0;
  double number = value.number;
  if ((mode & kToIntegral) != 0) number = integral(number, rounding);
  if ((flags & kConvertSat) != 0) number = number > 0 ? (number < 1 ? number : 1) : 0;
  if ((flags & kConvertRelu) != 0 && std::signbit(number) && !std::isnan(number)) number = 0;
  if (to == Type::kF64) {
    if (value.is_float) return std::bit_cast<std::uint64_t>(number);
    static constexpr int kModes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD,
                                     FE_TONEAREST};
    // The magnitude is rounded: down is up below zero.
    unsigned towards = mode & 7;
    if (value.negative && rounding == Rounding::kDown)
      towards = static_cast<unsigned>(Rounding::kUp);
    else if (value.negative && rounding == Rounding::kUp)
      towards = static_cast<unsigned>(Rounding::kDown);
    std::fesetround(kModes[towards]);
    volatile double converted = static_cast<double>(value.magnitude);
    std::fesetround(FE_TONEAREST);
    return std::bit_cast<std::uint64_t>(value.negative ? -converted : double{converted});
  }
  const Format format = format_of(to);
  std::uint32_t bits = 0;
  const auto float_rounding = (mode & kToIntegral) != 0 ? Rounding::kNearestEven : rounding;
  if (value.is_double && std::isnan(number))
    bits = narrow_nan(format, number);
  else if (value.is_float)
    bits = round_to(format, number, float_rounding, saturate);
  else
    bits = round_to(format, value.negative, value.magnitude, 0, float_rounding, saturate);
  if (to == Type::kTf32) bits <<= 13;
  if ((flags & kConvertFtz) != 0 && to == Type::kF32 && (bits & 0x7f800000) == 0)
    bits &= 0x80000000;
  return bits;
}

std::uint32_t narrow(Type to, double x, unsigned mode, unsigned flags) {
  Value value{true};
  value.number = x;
  return static_cast<std::uint32_t>(to_float(value, to, mode, flags));
}

}  // namespace

void convert_any(const Op& op, Warp& warp, std::uint32_t mask) {
  const auto to = static_cast<Type>(op.bytes);
  const auto from = static_cast<Type>(op.count);
  const unsigned bytes = bytes_of(to) < 2 ? 2 : bytes_of(to);
  for_lanes(mask, [&](unsigned lane) {
    Value value = read(warp, op.a, from, lane);
    if ((op.flags & kConvertFtz) != 0 && from == Type::kF32 && std::fabs(value.number) < 0x1p-126)
      value.number = std::copysign(0.0, value.number);
    std::uint64_t bits = is_integer(to)
                             ? to_integer(value, to, from, static_cast<Rounding>(op.mode & 7),
                                          (op.flags & kConvertSat) != 0)
                             : to_float(value, to, op.mode, op.flags);
    // 8-bit integers are extended to their register.
    if (to == Type::kS8) bits = static_cast<std::uint64_t>(static_cast<std::int8_t>(bits));
    if (to == Type::kU8 || to == Type::kB8) bits &= 0xff;
    std::memcpy(warp.regs + op.dst + std::size_t{bytes} * lane, &bits, bytes);
  });
}

void convert_pair(const Op& op, Warp& warp, std::uint32_t mask) {
  const auto to = static_cast<Type>(op.bytes);
  const bool bytes = to == Type::kE4m3x2 || to == Type::kE5m2x2;
  for_lanes(mask, [&](unsigned lane) {
    const std::uint32_t high = narrow(to, warp.source<float>(op.a)[lane], op.mode, op.flags);
    const std::uint32_t low = narrow(to, warp.source<float>(op.b)[lane], op.mode, op.flags);
    if (bytes)
      warp.cell<std::uint16_t>(op.dst)[lane] = static_cast<std::uint16_t>(high << 8 | low);
    else
      warp.cell<std::uint32_t>(op.dst)[lane] = high << 16 | low;
  });
}

void unpack_pair(const Op& op, Warp& warp, std::uint32_t mask) {
  const auto to = static_cast<Type>(op.bytes);
  const auto from = static_cast<Type>(op.count);
  const Format format = format_of(from);
  for_lanes(mask, [&](unsigned lane) {
    if (bytes_of(from) == 2) {
      const std::uint32_t bits = warp.source<std::uint16_t>(op.a)[lane];
      warp.cell<std::uint32_t>(op.dst)[lane] =
          narrow(to, value_of(format, bits >> 8), 0, op.flags) << 16 |
          narrow(to, value_of(format, bits & 0xff), 0, op.flags);
    } else {
      const std::uint32_t bits = warp.source<std::uint32_t>(op.a)[lane];
      warp.cell<std::uint16_t>(op.dst)[lane] =
          static_cast<std::uint16_t>(narrow(to, value_of(format, bits >> 16), 0, op.flags) << 8 |
                                     narrow(to, value_of(format, bits & 0xffff), 0, op.flags));
    }
  });
}

}  // namespace gpk::sim
