// Packed weights as arguments.
#pragma once

#include "bindings/arguments.h"
#include "bindings/python.h"
#include "ops/matmul/linear.h"

namespace gpk::bind {

// packed.T: what a row is multiplied with.
struct PackedTranspose {
  ops::PackedWeight weight;
};

// nullptr: it is none.
const ops::PackedWeight* packed_of(py::handle object);
const PackedTranspose* packed_transpose_of(py::handle object);
// Throws where it is none.
const ops::PackedWeight& packed_argument(const Arguments& args, int i);

// x @ w. Releases the GIL.
Array multiply_packed(const Array& x, const PackedTranspose& w);

}  // namespace gpk::bind
