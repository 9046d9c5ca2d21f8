// Matrix multiplication: vectors, matrices and stacks of them.
#pragma once

#include <optional>

#include "core/array.h"
#include "ops/matmul/activation.h"

namespace gpk::ops {

// What a call may say besides its operands. The result is
//   activation(alpha * x1 x2 + bias) + beta * residual
// in the accumulation type, rounded once for float16, bfloat16 and float32.
struct MatmulOptions {
  std::optional<Array> out;
  std::optional<bool> use_tf32;  // true: float32 operands only (Error); nullopt: matmul_precision()
  bool tf32x3 = false;           // float32 operands only: as two TF32 numbers
  // true: float64 operands only, as int8 slices; nullopt: matmul_precision().
  std::optional<bool> float64_int8;
  // The dtype that is computed in, as NumPy's dtype=: one the operands cast to within their kind.
  // float32 for float16 and bfloat16, and int32 for int8, cast nothing: sums are kept as they are.
  std::optional<DType> dtype;
  bool batch_invariant = false;               // rows do not depend on how many there are
  double alpha = 1.0;                         // of integers: a whole number
  std::optional<Array> bias;                  // n elements, dtype of the result
  Activation activation = Activation::kNone;  // of real floating-point results
  std::optional<Array> residual;              // broadcasts to the result, same dtype
  double beta = 1.0;                          // of the residual, which is not read where this is 0
};

// NumPy's matmul: the last two dimensions are matrices, those before broadcast; a 1-D operand is a
// row (first) or a column (second) whose dimension is dropped from the result. Integers wrap, bool
// is or over and, float16 and bfloat16 accumulate in float32. float32 is computed in float32 unless
// TF32 is allowed.
Array matmul(const Array& x1, const Array& x2, const std::optional<Array>& out = std::nullopt,
             std::optional<bool> use_tf32 = std::nullopt);
Array matmul(const Array& x1, const Array& x2, const MatmulOptions& options,
             const char* op = "matmul");

// Sum over one axis (of each operand) of conj(x1) * x2; the other axes broadcast.
Array vecdot(const Array& x1, const Array& x2, std::int64_t axis = -1,
             const std::optional<Array>& out = std::nullopt);

namespace gemm {

// A new array c[..., i, j] = sum over l of a[..., i, l] * b[..., l, j], without checks: at least
// two dimensions, equal leading ones (stride 0 where broadcast), one dtype, one device.
Array multiply_stacks(const Array& a, const Array& b, const char* op);

// The dtype of a call. Throws InvalidArgument for storage types and for two devices.
DType check_operands(const Array& x1, const Array& x2, const char* op);

}  // namespace gemm

}  // namespace gpk::ops
