// Which kernel makes a product, and how the work is cut up.
#pragma once

#include <string>

#include "ops/matmul/problem.h"

namespace gpk::ops {

enum class MatmulKind : std::uint8_t {
  kDirect,   // a thread per element of C: short k, tiny matrices, thin ones along their long side
  kRows,     // a warp per element of C: matrix-vector products along k, and their like
  kTile64,   // 64 x 64 tiles of C
  kTile128,  // 128 x 64 tiles of C; types that accumulate in four bytes
};

struct MatmulPlan {
  MatmulKind kind = MatmulKind::kDirect;
  bool transpose = false;  // make C^T = B^T A^T
  // K is cut into `splits` parts of `k_per_split`; above one, partial results are added by a
  // second kernel, in order.
  std::int64_t splits = 1;
  std::int64_t k_per_split = 0;
  friend bool operator==(const MatmulPlan&, const MatmulPlan&) = default;
};

// Pure. No dimension of `problem` but k is 0.
MatmulPlan plan_matmul(const MatmulProblem& problem, std::size_t accumulator_bytes, int num_sms);

std::string to_string(const MatmulPlan& plan);

}  // namespace gpk::ops
