// The last pass of a product whose kernel left sums: adds partial results, applies the epilogue.
#pragma once

#include <vector>

#include "jit/builtin.h"
#include "ops/matmul/desc.h"

namespace gpk::ops {

// Room for `splits` partial results: [splits][batches][m][n] of desc.dtype_acc ([n][m] for plans
// that make C^T, which take the same room).
Array make_partial(const MatmulDesc& desc, std::int64_t splits, Device device, const char* op);

// product.c = epilogue(sum over parts, in order, of partial[part]). `transpose`: of the plan that
// made them. CUDA only.
void launch_finish(const Product& product, const MatmulDesc& desc, const Array& partial,
                   std::int64_t splits, bool transpose);

void enumerate_finish(std::vector<jit::KernelSpec>& specs);

}  // namespace gpk::ops
