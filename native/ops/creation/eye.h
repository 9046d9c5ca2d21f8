// Matrices with a diagonal.
#pragma once

#include "core/array.h"

namespace gpk::ops {

// Ones on diagonal k (above the main one when positive), zeros elsewhere.
Array eye(std::int64_t rows, std::int64_t cols, std::int64_t k, DType dtype, Device device);

// The square matrix with the elements of `x`, in C order, on diagonal k.
Array diagflat(const Array& x, std::int64_t k, const char* op);

}  // namespace gpk::ops
