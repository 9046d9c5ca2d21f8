// Conversion of a Python number to an array's dtype.
#pragma once

#include <complex>
#include <cstdint>
#include <string>
#include <variant>

#include "core/dtype.h"

namespace gpk::inline core {

using Scalar = std::variant<bool, std::int64_t, std::uint64_t, double, std::complex<double>>;

// The bytes of one element, in the low end; the rest is zero.
struct ScalarBytes {
  alignas(16) unsigned char bytes[16] = {};
};

// Converts as NumPy does for Python scalars: the scalar's kind may not exceed the dtype's (no float
// into an integer dtype, no complex into a float dtype: InvalidArgument kType), and integers must
// fit (InvalidArgument kOverflow). Messages start with `op`.
ScalarBytes to_bytes(const Scalar& scalar, DType dtype, const char* op);

// To the 16-bit formats, rounded once, to nearest even. (bfloat16 goes through float32, like
// ml_dtypes.)
std::uint16_t to_float16(double x) noexcept;
std::uint16_t to_bfloat16(float x) noexcept;
float from_float16(std::uint16_t bits) noexcept;

// "2.5", "True", "3", "(1+2j)".
std::string to_string(const Scalar& scalar);

}  // namespace gpk::inline core
