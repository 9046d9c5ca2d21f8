// An epilogue as elementwise ops, for the dtypes whose kernels have none: complex numbers,
// integers, bool, and float64 with factors that float32 does not hold.
#pragma once

#include "ops/matmul/matmul.h"

namespace gpk::ops::gemm {

// Whether kernels apply the whole epilogue.
bool has_epilogue(DType result, const MatmulOptions& options);

// Throws InvalidArgument for what the dtype does not know: activations of other than real
// floating-point numbers and fractions of integers (kType), factors that do not fit (kOverflow).
void check_epilogue(DType result, const MatmulOptions& options, const char* op);

// result = activation(alpha * sums + bias) + beta * residual, step by step. `sums` is overwritten.
void apply_unfused(const Array& sums, const MatmulOptions& options, const Array& result);

}  // namespace gpk::ops::gemm
