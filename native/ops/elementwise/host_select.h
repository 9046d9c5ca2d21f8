// where() on the host, for CPU simulation: one pass at the speed of memory. Arrays are contiguous.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpk::ops {

// One operand: an element for each of the result's, or one for all of them.
struct Selectable {
  const void* data;
  bool is_one;
};

// out[i] = condition[i] ? x[i] : y[i], elements of 1, 2, 4, 8 or 16 bytes; `out` may be x or y.
void select(const bool* condition, const Selectable& x, const Selectable& y, void* out,
            std::int64_t count, std::size_t element_bytes);

}  // namespace gpk::ops
