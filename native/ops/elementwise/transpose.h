// Copies between arrays whose inner axes differ.
#pragma once

#include <vector>

#include "core/array.h"
#include "ops/op.h"

namespace gpk::ops::elementwise {

// Copies when `dst` and `src` (same shape and dtype, an unsigned integer or complex128) are
// contiguous along different axes, both at least eight long. Else does nothing and says false.
bool transpose_copy(const Array& dst, const Array& src);

void enumerate_transpose(std::vector<jit::KernelSpec>& specs);

}  // namespace gpk::ops::elementwise
