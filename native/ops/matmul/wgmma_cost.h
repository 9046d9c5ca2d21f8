// What plans of engine wgmma cost. Pure.
#pragma once

#include "ops/matmul/plan.h"

namespace gpk::ops::gemm {

// Microseconds on `machine`, what is packed before and summed after included. `desc` is
// transposed() already where the plan says so.
double wgmma_us(const MatmulDesc& desc, const GemmMachine& machine, const MatmulPlan& plan);

// Blocks in clusters of `size` that run at one time: clusters stay inside a part of the chip.
std::int64_t wgmma_blocks_at_once(const GemmMachine& machine, std::int64_t size);

// All tiles run at one time.
bool wgmma_is_one_wave(const MatmulDesc& desc, const GemmMachine& machine, const MatmulPlan& plan);

}  // namespace gpk::ops::gemm
