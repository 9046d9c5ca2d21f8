// Every kernel of the family, for the PTX bundle, `cache warm` and the compile tests.
#include "ops/op.h"

namespace gpk::ops {

void enumerate_reduction(std::vector<jit::KernelSpec>&) {}

}  // namespace gpk::ops
