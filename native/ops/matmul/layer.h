// Checks that the layers of this family share.
#pragma once

#include "core/array.h"

namespace gpk::ops::gemm {

// float16, bfloat16, float32 or float64; else InvalidArgument (kType).
void check_layer_dtype(const Array& x, const char* argument, const char* op);

// `array` has the dtype and device of `other`.
void check_like(const Array& array, const char* argument, const Array& other,
                const char* other_argument, const char* op);

// The residual broadcast to the result's shape; its dtype and device are those of x.
Array check_residual(const Array& residual, const Dims& shape, const Array& x, const char* op);

}  // namespace gpk::ops::gemm
