// Stacks of matrices [batch, rows, cols], as blocked algorithms see them: blocks are views, updates
// are GEMMs. float32 is computed in float32, whatever set_matmul_precision() says.
#pragma once

#include "core/array.h"
#include "ops/reduction/reduce.h"

namespace gpk::ops::linalg {

inline std::int64_t rows(const Array& a) { return a.shape()[1]; }
inline std::int64_t cols(const Array& a) { return a.shape()[2]; }

// A fresh C-contiguous stack of x (at least two axes) in `dtype`.
Array copy_stack(const Array& x, DType dtype, const char* op);
// Back to the axes of the call: a view.
Array unstack_to(const Array& stack, const Dims& shape, const char* op);

Array block(const Array& a, std::int64_t row, std::int64_t num_rows, std::int64_t col,
            std::int64_t num_cols);
Array rows_from(const Array& a, std::int64_t row, std::int64_t num_rows);
Array cols_from(const Array& a, std::int64_t col, std::int64_t num_cols);
// Views.
Array transposed(const Array& a, const char* op);
Array reversed(const Array& a, int axis);
// A view of real matrices, a copy of complex ones.
Array adjoint(const Array& a, const char* op);
Array conjugated(const Array& a, const char* op);

// a b, into a new stack or into c, which overlaps neither.
Array product(const Array& a, const Array& b, const char* op);
void product_into(const Array& c, const Array& a, const Array& b, const char* op);
// c -= a b, where no element of c is one of a or b.
void subtract_product(const Array& c, const Array& a, const Array& b, const char* op);

// [batch, rows, cols] with ones on the diagonal.
Array identity_stack(std::int64_t batch, std::int64_t num_rows, std::int64_t num_cols, DType dtype,
                     Device device, const char* op);

// The largest power of two up to the largest magnitude of each matrix, as [batch, 1, 1] in the real
// dtype; 1 for zero matrices. Division by it is exact. Status 1 where an element is not finite.
Array power_of_two_scale(const Array& a, const Array& status, const char* op);

// Options of a reduction along these axes.
ReduceOptions along(const Dims& axes, bool keepdims = false);

// Where recursive algorithms split: at half of n, a multiple of `unit`; after one unit up to
// `loop`, for fewer launches.
std::int64_t split_at(std::int64_t n, std::int64_t unit, std::int64_t loop = 0);

}  // namespace gpk::ops::linalg
