// Building blocks of cost models. Rates are sustained and deliberately rough: they rank kernels of
// different kinds; a family scales them by the fraction its kernels were measured to reach.
#pragma once

#include "core/dtype.h"
#include "plan/machine.h"

namespace gpk::plan {

double simt_flops_per_us(const Machine& machine);  // float32, an FMA counts 2
// Tensor cores, 0 where the operand type has none. TF32 for float32.
double tensor_flops_per_us(const Machine& machine, DType operand);
double dram_bytes_per_us(const Machine& machine);
double l2_bytes_per_us(const Machine& machine);

inline constexpr double kLaunchUs = 2.0;  // an empty kernel, as seen by the next launch

// A kernel that reads what its predecessor wrote: launch, wait for the last block, and `bytes` from
// the L2 where they fit, else from DRAM.
double dependent_pass_us(const Machine& machine, double bytes);

// Overlapping work: the longest part hides most of the others.
double overlapped_us(double x, double y, double z = 0.0);

}  // namespace gpk::plan
