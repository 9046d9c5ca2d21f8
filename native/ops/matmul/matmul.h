// Products of vectors, matrices and stacks of them.
#pragma once

#include <optional>

#include "core/array.h"

namespace gpk::ops {

// NumPy's matmul: the last two dimensions are matrices, those before broadcast; a 1-D operand is a
// row (first) or a column (second) whose dimension is dropped from the result. Integers wrap, bool
// is or over and, float16 and bfloat16 accumulate in float32. float32 is computed in float32 also
// with `use_tf32`, which is refused (Error) for other dtypes.
Array matmul(const Array& x1, const Array& x2, const std::optional<Array>& out = std::nullopt,
             std::optional<bool> use_tf32 = std::nullopt);

// Sum over one axis (of each operand) of conj(x1) * x2; the other axes broadcast.
Array vecdot(const Array& x1, const Array& x2, std::int64_t axis = -1,
             const std::optional<Array>& out = std::nullopt);

// A new array c[..., i, j] = sum over l of a[..., i, l] * b[..., l, j], without checks: at least
// two dimensions, equal leading ones (stride 0 where broadcast), one dtype, one device.
Array multiply_stacks(const Array& a, const Array& b, const char* op);

// The dtype of a product. Throws InvalidArgument for storage types and for two devices.
DType check_operands(const Array& x1, const Array& x2, const char* op);

}  // namespace gpk::ops
