// The kernels of the family, as KernelKey numbers them.
#pragma once

#include <cstdint>

namespace gpk::ops::creation {

enum class CreationKernel : std::uint8_t { kRealRamp, kFloorRamp, kIntegerRamp, kTriangle };

}  // namespace gpk::ops::creation
