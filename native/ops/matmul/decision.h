// From all that engines propose to the one plan that runs, and why.
#pragma once

#include "ops/matmul/plan_cache.h"

namespace gpk::ops::gemm {

using PlanDecision = plan::Decision<MatmulPlan, GemmMachine>;

// Uses what was measured (tuning.h). Loads cuBLASLt where the policy names it, where it measured
// faster, and where only the general engine could run a GEMM that takes long. Throws
// InvalidArgument for formats that no engine takes (formats.h).
PlanDecision decide_plan(const MatmulDesc& desc, const GemmMachine& machine,
                         const char* op = "matmul");

// What decide_plan() weighs, with cuBLASLt wherever it can be had: for measurements.
std::vector<MatmulPlan> all_candidates(const MatmulDesc& desc, const GemmMachine& machine);

}  // namespace gpk::ops::gemm
