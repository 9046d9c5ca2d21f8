// The finish pass: split-K reduction and epilogue of kernels that wrote accumulators.
#pragma once

#include <vector>

#include "jit/builtin.h"
#include "ops/matmul/desc.h"

namespace gpk::ops::gemm {

// Room for the partial sums of `splits`: [splits][batches][m][n] of desc.dtype_acc ([n][m] for
// plans that compute C^T, which take the same room).
Array make_partial(const MatmulDesc& desc, std::int64_t splits, Device device, const char* op);

// call.c = epilogue(sum over splits, in order, of partial[split]). `transpose`: of the plan that
// wrote them. CUDA only.
void launch_finish(const GemmCall& call, const MatmulDesc& desc, const Array& partial,
                   std::int64_t splits, bool transpose);

void enumerate_finish(std::vector<jit::KernelSpec>& specs);

}  // namespace gpk::ops::gemm
