// Arguments of the kernels that take any strides: general ones, and the finish pass.
#pragma once

#include "ops/matmul/problem.h"

namespace gpk::ops::gemm {

// Mirror of the kernels' struct in kernels/matmul/call.cuh.
struct MatmulArgs {
  cu::DevicePtr a, b, c, partial;
  std::int64_t m, n, k;
  std::int64_t a_m, a_k, b_k, b_n, c_m, c_n;
  std::int64_t num_batches, batch_rank;
  std::int64_t splits, k_per_split;
  std::int64_t batch_shape[kMaxMatmulBatchRank];
  std::int64_t batch_a[kMaxMatmulBatchRank];
  std::int64_t batch_b[kMaxMatmulBatchRank];
  std::int64_t batch_c[kMaxMatmulBatchRank];
};

// All but the addresses.
MatmulArgs make_matmul_args(const MatmulProblem& problem, std::int64_t splits,
                            std::int64_t k_per_split);

}  // namespace gpk::ops::gemm
