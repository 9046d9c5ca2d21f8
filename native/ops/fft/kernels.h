// The kernels of the family: keys and specs.
#pragma once

#include <cstdint>

#include "jit/builtin.h"
#include "ops/fft/plan.h"

namespace gpk::ops::fft {

enum class FftKernel : std::uint8_t { kBlock, kGeneral, kMerge, kBluestein };

// The fields that select code: of a pass for kBlock and kBluestein, else the precision alone.
std::uint64_t pack(FftKernel which, bool wide, const FftPass& pass);
jit::KernelSpec make_spec(FftKernel which, bool wide, const FftPass& pass);

}  // namespace gpk::ops::fft
