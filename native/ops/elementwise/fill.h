// Creation: zeros, ones, full.
#pragma once

#include "core/array.h"
#include "core/scalar.h"
#include "ops/op.h"

namespace gpk::ops {

// A new contiguous array with every element `value`. Zero works for every dtype.
Array full(const Dims& shape, const Scalar& value, DType dtype, Device device, const char* op);

// Sets every element; any strides.
void fill(const Array& array, const Scalar& value, const char* op);

namespace elementwise {

void enumerate_fill(std::vector<jit::KernelSpec>& specs);

}  // namespace elementwise

}  // namespace gpk::ops
