// Every kernel of the family by number, and the variants that plans choose.
#pragma once

#include <cstdint>
#include <vector>

#include "core/dtype.h"
#include "jit/builtin.h"

namespace gpk::ops::conv {

enum class ConvKernel : std::uint8_t { kMma, kPack, kDirect, kCausal };

inline constexpr DType kDTypes[] = {DType::kFloat16, DType::kBFloat16, DType::kFloat32};

void enumerate_mma(std::vector<jit::KernelSpec>& specs);
void enumerate_direct(std::vector<jit::KernelSpec>& specs);
void enumerate_causal(std::vector<jit::KernelSpec>& specs);

}  // namespace gpk::ops::conv
