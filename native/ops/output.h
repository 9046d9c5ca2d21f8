// Checks common to all ops before they write to a caller's array.
#pragma once

#include "core/array.h"

namespace gpk::ops {

// Throws where `array` may not be written: read-only memory, and broadcast views, whose elements
// share memory. `argument` is its name in the message.
void check_writable(const Array& array, const char* op, const char* argument);

// Throws unless a result of `dtype` on `device` can be cast into `out` within its kind. Storage
// types accept only results of their own dtype.
void check_out_memory(const Array& out, DType dtype, Device device, const char* op);

// Same, and `out` must have exactly `shape`.
void check_out(const Array& out, const Dims& shape, DType dtype, Device device, const char* op);

}  // namespace gpk::ops
