// Every kernel of the family, for the PTX bundle, `cache warm` and the compile tests.
#include "ops/creation/ramp.h"
#include "ops/creation/triangle.h"

namespace gpk::ops {

void enumerate_creation(std::vector<jit::KernelSpec>& specs) {
  creation::enumerate_ramp(specs);
  creation::enumerate_triangle(specs);
}

}  // namespace gpk::ops
