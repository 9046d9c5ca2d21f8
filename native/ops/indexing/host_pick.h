// take() and x[mask] on the host, for CPU simulation: straight into the result. Arrays are
// contiguous.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace gpk::ops {

// x as [outer, size, inner]; picked along the middle axis, where the result has `count` elements.
struct PickShape {
  std::int64_t outer, size, count;
  std::size_t inner_bytes;
};

// out[o, j] = x[o, index[j]]; negative indices count from the end. False, with nothing written,
// where an index is out of bounds.
bool take_lines(const void* x, std::span<const std::int64_t> index, void* out,
                const PickShape& shape);
bool take_lines(const void* x, std::span<const std::int32_t> index, void* out,
                const PickShape& shape);

// out[o] = the lines of x[o] where `mask`, one byte for each of `size` lines, is not 0. Exactly
// `count` of them are.
void compact_lines(const void* x, const unsigned char* mask, void* out, const PickShape& shape);

}  // namespace gpk::ops
