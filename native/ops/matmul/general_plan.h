// Plans of the general engine.
#pragma once

#include "ops/matmul/engine_general.h"

namespace gpk::ops {

// Its one proposal. Pure.
MatmulPlan plan_general(const MatmulDesc& desc, const Machine& machine);

// Whether its kernels leave sums that the last pass (finish.h) makes C from.
bool needs_finish(const MatmulDesc& desc, const MatmulPlan& plan);

}  // namespace gpk::ops
