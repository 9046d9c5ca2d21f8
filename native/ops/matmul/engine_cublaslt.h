// The engine that calls cuBLASLt. Its plans name no kernel: the library chooses one, once per
// desc and thread. Chosen where it was measured to be faster, where only the general engine is
// left, or by policy.
#pragma once

#include "ops/matmul/plan.h"

namespace gpk::ops::gemm {

// Whether the library can be asked for `desc`, its epilogue included. Pure.
bool cublaslt_can(const MatmulDesc& desc, int sm);

// Whether the library, once asked for what `plan` needs of it, had no kernel; false for plans of
// other engines.
bool cublaslt_refused(const MatmulDesc& desc, const MatmulPlan& plan);

}  // namespace gpk::ops::gemm
