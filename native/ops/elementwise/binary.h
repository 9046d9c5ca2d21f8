// Two operands, one result: add, mul.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "core/array.h"
#include "core/scalar.h"
#include "ops/op.h"

namespace gpk::ops {

// An array, or a number that takes the other operand's dtype.
using Operand = std::variant<Array, Scalar>;

// The result goes to `out` when given (same shape, dtype and device; may be one of the operands).
// Operands: contiguous, equal shape and dtype; at most one of them a number.
Array add(const Operand& a, const Operand& b, const std::optional<Array>& out = std::nullopt);
Array mul(const Operand& a, const Operand& b, const std::optional<Array>& out = std::nullopt);

// How a launch over `n` elements of `dtype` is laid out.
struct BinaryPlan {
  int vec = 1;          // elements per access
  bool scalar = false;  // the second operand is a number
  unsigned num_blocks = 0;
  friend bool operator==(const BinaryPlan&, const BinaryPlan&) = default;
};
inline constexpr int kBinaryBlock = 256;
inline constexpr int kBinaryUnroll = 2;

// `alignment` is the largest power of two that divides all addresses.
BinaryPlan plan_binary(DType dtype, std::int64_t n, bool scalar, std::size_t alignment);
std::string to_string(const BinaryPlan& plan);

}  // namespace gpk::ops
