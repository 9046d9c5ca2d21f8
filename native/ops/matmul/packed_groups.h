// Rows sorted by expert times a stack of packed weights.
#pragma once

#include "ops/matmul/row_groups.h"
#include "ops/quantize/packed_weight.h"

namespace gpk::ops {

// grouped_gemm of a packed stack: x [m, k] of float16, bfloat16 or float32, w [experts, n, k]. Up
// to 64 rows with int32 sizes on the device are multiplied as they are stored; sizes on the host
// are a linear() per group; else w becomes numbers of x's dtype. Throws InvalidArgument.
Array grouped_gemm(const Array& x, const PackedWeight& w, const gemm::RowGroups& groups,
                   const std::optional<Array>& out);

// result[i] = x[i] w[e]^T, the first sizes[0] (int32, on the device) rows belonging to expert 0,
// the next to expert 1 and so on: x [m, k] of float16, bfloat16 or float32, w [experts, n, k]. Rows
// of no group are undefined. few_rows: a row's result is that of linear() with few_rows; else that
// of grouped_gemm with w as numbers of x's dtype, of which only experts with rows are made. Throws
// InvalidArgument.
Array grouped_linear(const Array& x, const PackedWeight& w, const Array& sizes, bool few_rows);

namespace gemm {

// On CUDA, contiguous x, sizes and result; false: no kernel takes them.
bool launch_packed_groups(const Array& x, const PackedWeight& w, const Array& sizes,
                          const Array& result, const char* op);

}  // namespace gemm
}  // namespace gpk::ops
