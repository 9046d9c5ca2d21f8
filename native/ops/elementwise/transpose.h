// Copies between arrays whose inner axes differ.
#pragma once

#include <vector>

#include "core/array.h"
#include "ops/op.h"

namespace gpk::ops {

// How a transposing copy is laid out: rows along the source's inner axis, columns along the
// result's.
struct TransposePlan {
  bool blocks = false;  // in registers, 16 bytes at a time; else element by element in tiles
  int vec = 1;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

// Copies when `dst` and `src` (same shape and dtype, an unsigned integer or complex128) are
// contiguous along different axes, both at least eight long. Else does nothing and says false.
bool transpose_copy(const Array& dst, const Array& src);

void enumerate_transpose(std::vector<jit::KernelSpec>& specs);

}  // namespace gpk::ops
