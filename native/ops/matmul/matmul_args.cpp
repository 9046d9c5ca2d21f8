#include "ops/matmul/matmul_args.h"

#include <algorithm>

namespace gpk::ops::gemm {

MatmulArgs make_matmul_args(const MatmulProblem& p, std::int64_t splits, std::int64_t k_per_split) {
  MatmulArgs args{};
  args.m = p.m;
  args.n = p.n;
  args.k = p.k;
  args.a_m = p.a_m;
  args.a_k = p.a_k;
  args.b_k = p.b_k;
  args.b_n = p.b_n;
  args.c_m = p.c_m;
  args.c_n = p.c_n;
  args.num_batches = p.num_batches();
  args.batch_rank = p.batch_shape.size();
  args.splits = splits;
  args.k_per_split = k_per_split;
  std::copy(p.batch_shape.begin(), p.batch_shape.end(), args.batch_shape);
  std::copy(p.batch_a.begin(), p.batch_a.end(), args.batch_a);
  std::copy(p.batch_b.begin(), p.batch_b.end(), args.batch_b);
  std::copy(p.batch_c.begin(), p.batch_c.end(), args.batch_c);
  return args;
}

}  // namespace gpk::ops::gemm
