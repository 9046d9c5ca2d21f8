// GEMMs that most programs run: squares, and layers of language models by number of rows. Their
// kernels are bundled, and prepared in the background when the family is first used.
#pragma once

#include <vector>

#include "ops/matmul/plan.h"

namespace gpk::ops::gemm {

// The kernels that plans choose for them on `machine`, the most usual first, each once.
std::vector<jit::KernelSpec> typical_kernels(const plan::Machine& machine);

}  // namespace gpk::ops::gemm
