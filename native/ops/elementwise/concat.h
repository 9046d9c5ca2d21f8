// Copies of several arrays side by side in one launch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/array.h"
#include "ops/op.h"

namespace gpk::ops::elementwise {

struct ConcatPlan {
  std::size_t word_bytes = 16;  // the widest access that fits everything
  std::int64_t blocks = 0;      // 0: nothing to copy, or too much for 32-bit indices
};

// `row_bytes`: of each array, in a row of the result; `alignment`: of all addresses.
ConcatPlan plan_concat(std::span<const std::int64_t> row_bytes, std::int64_t rows,
                       std::size_t alignment);

// Copies `arrays`, whose shapes fit, into `out` along `axis`. Does nothing and says false unless
// there are two or more, all on the GPU, of out's dtype, C-contiguous, apart from `out`, and each
// of fewer than 2**31 words.
bool concat_copy(const Array& out, std::span<const Array> arrays, int axis);

void enumerate_concat(std::vector<jit::KernelSpec>& specs);

}  // namespace gpk::ops::elementwise
