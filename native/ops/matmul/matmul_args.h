// Arguments of the kernels that take any strides: general ones, and the finish pass.
#pragma once

#include "kernels/args/matmul.h"
#include "ops/matmul/problem.h"

namespace gpk::ops::gemm {

using kernels::MatmulArgs;

// All but the addresses.
MatmulArgs make_matmul_args(const MatmulProblem& problem, std::int64_t splits,
                            std::int64_t k_per_split);

}  // namespace gpk::ops::gemm
