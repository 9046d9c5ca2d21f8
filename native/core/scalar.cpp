#include "core/scalar.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "core/kind_rank.h"

namespace gpk::inline core {
namespace {

int kind_rank(const Scalar& scalar) {
  static constexpr int kRanks[] = {0, 1, 1, 2, 3};  // by alternative
  return kRanks[scalar.index()];
}

template <class To>
bool fits(const Scalar& scalar) {
  return std::visit(
      [](auto value) {
        if constexpr (std::is_same_v<decltype(value), bool>) {
          return true;
        } else if constexpr (std::is_integral_v<decltype(value)>) {
          return std::in_range<To>(value);
        } else {
          return false;
        }
      },
      scalar);
}

template <class To>
To as_number(const Scalar& scalar) {
  return std::visit(
      [](auto value) -> To {
        if constexpr (std::is_same_v<decltype(value), std::complex<double>>) {
          return static_cast<To>(value.real());
        } else {
          return static_cast<To>(value);
        }
      },
      scalar);
}

template <class To>
ScalarBytes store(To value) {
  ScalarBytes out;
  std::memcpy(out.bytes, &value, sizeof value);
  return out;
}

template <class To>
ScalarBytes store_integer(const Scalar& scalar, DType dtype, const char* op) {
  if (!fits<To>(scalar))
    throw InvalidArgument(InvalidArgument::Kind::kOverflow,
                          cat(op, ": ", to_string(scalar), " does not fit in ", name(dtype)));
  return store(as_number<To>(scalar));
}

std::complex<double> as_complex(const Scalar& scalar) {
  if (const auto* value = std::get_if<std::complex<double>>(&scalar)) return *value;
  return {as_number<double>(scalar), 0.0};
}

}  // namespace

std::uint16_t to_bfloat16(float x) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if (std::isnan(x)) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

std::uint16_t to_float16(double x) noexcept {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const auto sign = static_cast<std::uint16_t>((bits >> 48) & 0x8000u);
  const double magnitude = std::fabs(x);
  if (std::isnan(x)) return sign | 0x7e00u;
  if (magnitude >= 65520.0) return sign | 0x7c00u;  // rounds past the largest finite value
  // Below 2**-14 the steps are 2**-24; above, 2**-10 of the power of two below the value.
  const int exponent = magnitude < 0x1p-14 ? -14 : std::ilogb(magnitude);
  const double steps = std::nearbyint(std::ldexp(magnitude, 10 - exponent));
  // A carry out of the ten mantissa bits correctly increments the exponent.
  const int biased = magnitude < 0x1p-14 ? 0 : exponent + 14;
  return sign | static_cast<std::uint16_t>(biased * 1024 + static_cast<int>(steps));
}

float from_float16(std::uint16_t bits) noexcept {
  const int exponent = bits >> 10 & 0x1f;
  const int mantissa = bits & 0x3ff;
  float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                                  : std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
  if (exponent == 31)
    magnitude = mantissa == 0 ? std::numeric_limits<float>::infinity()
                              : std::numeric_limits<float>::quiet_NaN();
  return (bits & 0x8000u) != 0 ? -magnitude : magnitude;
}

ScalarBytes to_bytes(const Scalar& scalar, DType dtype, const char* op) {
  static constexpr const char* kKinds[] = {"a bool", "an integer", "a float", "a complex number"};
  if (kind_rank(scalar) > kind_rank(dtype))
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat(op, ": scalar ", to_string(scalar), " is ", kKinds[kind_rank(scalar)],
                              ", the array has dtype ", name(dtype)));
  switch (dtype) {
    case DType::kBool: return store(as_number<bool>(scalar));
    case DType::kInt8: return store_integer<std::int8_t>(scalar, dtype, op);
    case DType::kInt16: return store_integer<std::int16_t>(scalar, dtype, op);
    case DType::kInt32: return store_integer<std::int32_t>(scalar, dtype, op);
    case DType::kInt64: return store_integer<std::int64_t>(scalar, dtype, op);
    case DType::kUInt8: return store_integer<std::uint8_t>(scalar, dtype, op);
    case DType::kUInt16: return store_integer<std::uint16_t>(scalar, dtype, op);
    case DType::kUInt32: return store_integer<std::uint32_t>(scalar, dtype, op);
    case DType::kUInt64: return store_integer<std::uint64_t>(scalar, dtype, op);
    case DType::kFloat16: return store(to_float16(as_number<double>(scalar)));
    case DType::kBFloat16: return store(to_bfloat16(as_number<float>(scalar)));
    case DType::kFloat32: return store(as_number<float>(scalar));
    case DType::kFloat64: return store(as_number<double>(scalar));
    case DType::kComplex64: return store(std::complex<float>(as_complex(scalar)));
    case DType::kComplex128: return store(as_complex(scalar));
    default:
      throw InvalidArgument(InvalidArgument::Kind::kType,
                            cat(op, ": dtype ", name(dtype), " is a storage type; cast it first"));
  }
}

std::string to_string(const Scalar& scalar) {
  return std::visit(
      [](auto value) -> std::string {
        using T = decltype(value);
        if constexpr (std::is_same_v<T, bool>) {
          return value ? "True" : "False";
        } else if constexpr (std::is_same_v<T, std::complex<double>>) {
          return cat('(', value.real(), value.imag() < 0 ? "" : "+", value.imag(), "j)");
        } else {
          return cat(value);
        }
      },
      scalar);
}

}  // namespace gpk::inline core
