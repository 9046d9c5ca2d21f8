// Every kernel of the family by number, and the variants that plans choose.
#pragma once

#include <cstdint>
#include <vector>

#include "core/dtype.h"
#include "jit/builtin.h"

namespace gpk::ops::recurrent {

enum class RecurrentKernel : std::uint8_t { kCells, kScanStates, kScanCombine, kScanOutputs };

inline constexpr DType kDTypes[] = {DType::kFloat16, DType::kBFloat16, DType::kFloat32};

void enumerate_cells(std::vector<jit::KernelSpec>& specs);
void enumerate_scan(std::vector<jit::KernelSpec>& specs);

}  // namespace gpk::ops::recurrent
