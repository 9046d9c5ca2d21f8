// Arrays to NumPy and to other libraries: shared by the binding files.
#pragma once

#include "bindings/python.h"
#include "core/array.h"

namespace gpk::bind {

// array.to_numpy(): into `out` (None: a new NumPy array) on `stream` (None: the current one).
// Without `blocking` it is asynchronous, and `out` must be pinned.
py::object to_numpy(const Array& array, py::handle out, py::handle stream, bool blocking);

// An array over a NumPy array's memory. Throws InvalidArgument where it cannot be shared.
Array wrap_numpy(py::handle array);

// At most 2 * edge + 1 items of each axis, the first edge + 1 and the last edge, on the array's
// device.
Array edge_items(const Array& array, std::int64_t edge);

// A four-bit array as the bytes that hold two values each; the last axis must be even.
Array packed_bytes(const Array& array);

// A contiguous copy in its own memory.
Array fresh_copy(const Array& array, const char* op);

// `array` itself when it is on `device`, else a copy there.
Array moved_to(const Array& array, Device device, const char* op);

}  // namespace gpk::bind
