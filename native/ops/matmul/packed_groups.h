// Rows sorted by expert times a stack of packed weights.
#pragma once

#include "ops/quantize/packed_weight.h"

namespace gpk::ops {

// result[i] = x[i] w[e]^T, the first sizes[0] (int32, on the device) rows belonging to expert 0,
// the next to expert 1 and so on: x [m, k] of float16, bfloat16 or float32, w [experts, n, k]. Rows
// of no group are undefined. few_rows: a row's result is that of linear() with few_rows; else that
// of grouped_gemm with w as numbers of x's dtype. Throws InvalidArgument.
Array grouped_linear(const Array& x, const PackedWeight& w, const Array& sizes, bool few_rows);

namespace gemm {

// On CUDA, contiguous x and result; false: no kernel takes them.
bool launch_packed_groups(const Array& x, const PackedWeight& w, const Array& sizes,
                          const Array& result);

}  // namespace gemm
}  // namespace gpk::ops
