// What a reduction looks like after dimensions have been merged, and the structs its kernels take.
#pragma once

#include <cstdint>

#include "core/array.h"

namespace gpk::ops {

// As in kernels/reduction/layout.cuh. Kept dimensions (one result per index) and reduced ones,
// slowest first, strides in elements.
struct ReduceLayout {
  static constexpr int kMaxDims = 6;
  std::int64_t kept_size[kMaxDims] = {};
  std::int64_t kept_in[kMaxDims] = {};
  std::int64_t kept_out[kMaxDims] = {};
  std::int64_t reduced_size[kMaxDims] = {};
  std::int64_t reduced_in[kMaxDims] = {};
  std::int64_t kept = 1;
  std::int64_t reduced = 1;
  int num_kept = 0;
  int num_reduced = 0;
};

// A layout and where its first element is: negative strides are turned round where order is free.
struct Collapsed {
  ReduceLayout layout;
  std::int64_t in_offset = 0;  // in elements, from the array's first
  bool fits = true;            // false: more dimensions than kernels take
};

// `x` reduced along the axes whose bit is set, to `out`, which has the other axes only. Dimensions
// are put in the order of memory; reduced ones only when `ordered` is false (indices count them in
// the order of `x`).
Collapsed collapse(const Array& x, std::uint32_t axes, const Array& out, bool ordered);

}  // namespace gpk::ops
