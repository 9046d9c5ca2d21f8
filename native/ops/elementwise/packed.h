// Casts to and from the four-bit types, which share bytes.
#pragma once

#include <vector>

#include "core/array.h"
#include "ops/op.h"

namespace gpk::ops::elementwise {

// Both contiguous, same shape. `packed` has a four-bit dtype, the other array another one.
void unpack4(const Array& dst, const Array& packed);
void pack4(const Array& packed, const Array& src);

void enumerate_packed(std::vector<jit::KernelSpec>& specs);

}  // namespace gpk::ops::elementwise
