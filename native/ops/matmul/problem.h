// A batched GEMM reduced to sizes and strides: what plans and kernels see.
#pragma once

#include <string>

#include "core/array.h"
#include "kernels/args/matmul.h"

namespace gpk::ops::gemm {

// Batch dimensions the kernels can walk; with more, operands are copied first.
inline constexpr int kMaxMatmulBatchRank = kernels::MatmulArgs::kMaxBatchRank;

// C[batch, i, j] = sum over l of A[batch, i, l] * B[batch, l, j]; strides in elements.
struct MatmulProblem {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_m = 0, a_k = 0, b_k = 0, b_n = 0, c_m = 0, c_n = 0;
  Dims batch_shape, batch_a, batch_b, batch_c;

  [[nodiscard]] std::int64_t num_batches() const noexcept;
  friend bool operator==(const MatmulProblem&, const MatmulProblem&) = default;
};

// Something else that is read once per element of C, by its strides. Without has_m it is the same
// for all rows, without has_n for all columns.
struct MatmulExtra {
  bool has_m = true, has_n = true;
  std::int64_t m = 0, n = 0;
  Dims batch;  // strides over c's leading dimensions; on return over batch_shape
};

// `a`, `b` and `c` have at least two dimensions, and all but the last two agree (stride 0 where
// one is broadcast). Batch dimensions are joined with each other, and with m (or n) where the other
// operand is the same for all of them: rows of a stack are rows. `extras` are joined along, and
// keep batches apart where their strides do not allow it.
MatmulProblem make_problem(const Array& a, const Array& b, const Array& c,
                           std::span<MatmulExtra> extras = {});

// The same results from the transposes: C^T = B^T A^T.
MatmulProblem transposed(const MatmulProblem& problem);

}  // namespace gpk::ops::gemm
