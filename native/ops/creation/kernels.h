// The kernels of the family, in KernelKey's numbering.
#pragma once

#include <cstdint>

namespace gpk::ops::creation {

enum class CreationKernel : std::uint8_t { kRealRamp, kFloorRamp, kIntegerRamp, kTriangle };

}  // namespace gpk::ops::creation
