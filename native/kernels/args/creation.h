// Arguments of the kernels in kernels/creation.
#pragma once

namespace gpk::kernels {

// start + i * step, or i / div * step + start where div is not zero; `last` is the value of the
// last element.
struct RealRamp {
  double start = 0, step = 0, div = 0, last = 0;
};
static_assert(sizeof(RealRamp) == 32 && __is_trivially_copyable(RealRamp));

}  // namespace gpk::kernels
