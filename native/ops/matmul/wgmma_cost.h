// What plans of engine wgmma cost. Pure.
#pragma once

#include "ops/matmul/plan.h"

namespace gpk::ops {

// Microseconds on `machine`, what is packed before and summed after included. `desc` is that of
// what is made: transposed() already where the plan says so.
double wgmma_us(const MatmulDesc& desc, const Machine& machine, const MatmulPlan& plan);

// Blocks in clusters of `size` that run at one time: clusters stay inside a part of the chip.
std::int64_t wgmma_blocks_at_once(const Machine& machine, std::int64_t size);

// All tiles (a cluster's together where it fetches B together) are made at one time.
bool wgmma_is_one_wave(const MatmulDesc& desc, const Machine& machine, const MatmulPlan& plan);

}  // namespace gpk::ops
