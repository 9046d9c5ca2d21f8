// counts[row, id] += 1 for ids [rows, per_row] that are columns; others are skipped. Grid: a thread
// per id. Exact: integers.
#pragma once

#include "args/sampling.h"

namespace gpk {

using namespace kernels;

__global__ void __launch_bounds__(256) count_tokens(const TokenCountArgs args) {
  const long long at = static_cast<long long>(blockIdx.x) * 256 + threadIdx.x;
  if (at >= args.num_ids) return;
  const int id = args.ids[at];
  if (id >= 0 && id < args.width)
    atomicAdd(&args.counts[at / args.per_row * args.counts_row + id], 1);
}

}  // namespace gpk
