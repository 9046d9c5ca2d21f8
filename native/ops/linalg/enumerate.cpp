// Every kernel of the family, for the PTX bundle, `cache warm` and the compile tests.
#include "ops/linalg/leaves.h"
#include "ops/op.h"

namespace gpk::ops {

void enumerate_linalg(std::vector<jit::KernelSpec>& specs) { linalg::enumerate_leaves(specs); }

}  // namespace gpk::ops
