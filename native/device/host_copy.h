// Arrays from host memory and back.
#pragma once

#include "core/array.h"

namespace gpk::device {

// Host memory to a new array on `device` and back; `src` / `dst` hold array.nbytes() contiguous
// bytes. On a GPU: ordered on the current stream; from_host returns when `src` may be changed,
// to_host when `dst` is complete, having waited for this array's own work only.
Array from_host(const void* src, Dims shape, DType dtype, Device device);
void to_host(const Array& array, void* dst);
// The same into an array that exists.
void copy_from_host(const Array& array, const void* src);
// Into pinned memory, complete when the current stream has done it.
void copy_to_pinned(const Array& array, void* dst);

}  // namespace gpk::device
