// Contractions over named axes. Each becomes one batched GEMM by views, with a copy only where axes
// that belong together are not adjacent in memory.
#pragma once

#include <optional>
#include <vector>

#include "core/array.h"

namespace gpk::ops {

// Labels of axes: small numbers. Equal labels are one index.
using Labels = std::vector<int>;

// result[output] = sum over all other labels of the product of operands[i][labels[i]]. A label
// repeated in one operand walks its diagonal; sizes of one label agree or are 1 (broadcast).
// Operands are contracted from left to right. Without sums and products the result is a view.
// Messages name operands by number. Throws InvalidArgument.
Array einsum(const std::vector<Array>& operands, const std::vector<Labels>& labels,
             const Labels& output, const std::optional<Array>& out = std::nullopt);

// Sum over axes1[i] of x1 together with axes2[i] of x2; result: the other axes of x1, then of x2.
Array tensordot(const Array& x1, const Array& x2, const Dims& axes1, const Dims& axes2,
                const char* op = "tensordot");
// The last `count` axes of x1 with the first of x2.
Array tensordot(const Array& x1, const Array& x2, std::int64_t count);

// NumPy's functions of these names.
Array dot(const Array& x1, const Array& x2);
Array inner(const Array& x1, const Array& x2);
Array outer(const Array& x1, const Array& x2);
Array vdot(const Array& x1, const Array& x2);
Array kron(const Array& x1, const Array& x2);
Array trace(const Array& x, std::int64_t offset, std::int64_t axis1, std::int64_t axis2,
            std::optional<DType> dtype = std::nullopt);

// A view with the last two axes swapped.
Array matrix_transpose(const Array& x);

}  // namespace gpk::ops
