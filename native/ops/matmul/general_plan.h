// Plans of the general engine.
#pragma once

#include "ops/matmul/engine_general.h"

namespace gpk::ops::gemm {

// Its one proposal. Pure.
MatmulPlan plan_general(const MatmulDesc& desc, const GemmMachine& machine);

// Whether its kernels write accumulators that the finish pass (finish.h) turns into C.
bool needs_finish(const MatmulDesc& desc, const MatmulPlan& plan);

}  // namespace gpk::ops::gemm
