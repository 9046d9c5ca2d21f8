// What every op checks before it writes into an array of the caller's.
#pragma once

#include "core/array.h"

namespace gpk::ops {

// Throws where `array` may not be written: memory its owner lent for reading only, and broadcast
// views, whose elements share memory. `argument` is its name in the message.
void check_writable(const Array& array, const char* op, const char* argument);

// Throws unless a result of `dtype` made on `device` can be cast into `out` within its kind.
// Storage types take only results of their own dtype.
void check_out_memory(const Array& out, DType dtype, Device device, const char* op);

// The same, and `out` has exactly `shape`.
void check_out(const Array& out, const Dims& shape, DType dtype, Device device, const char* op);

}  // namespace gpk::ops
