// The loop over broadcast, strided operands with as few axes as possible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/array.h"

namespace gpk::ops::elementwise {

inline constexpr int kMaxOperands = 9;  // the result included

// Axes inner first. Operands in the order given; a null array has stride 0 on every axis.
struct Layout {
  int rank = 0;  // 0: one element
  int num_operands = 0;
  std::int64_t size[kMaxRank];                  // the first `rank` are set
  std::int64_t stride[kMaxRank][kMaxOperands];  // in elements

  [[nodiscard]] std::int64_t num_elements() const noexcept;
};

// All arrays are broadcast to `shape`. The last operand is the result (no stride 0 on an axis
// longer than 1): axes are ordered by its strides, size 1 is dropped, neighbours are merged where
// every operand allows it.
Layout make_layout(const Dims& shape, std::span<const Array* const> operands);

// Every offset and the number of elements fit in 31 bits.
bool fits_32_bits(const Layout& layout) noexcept;

// "layout(size=(4, 3), strides=((1, 4), (1, 3)))", inner axis first, one list per operand.
std::string to_string(const Layout& layout);

}  // namespace gpk::ops::elementwise
