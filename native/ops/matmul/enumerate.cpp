// Every kernel of the family, for the PTX bundle, `cache warm` and the compile tests.
#include "ops/matmul/launch.h"
#include "ops/op.h"

namespace gpk::ops {

void enumerate_matmul(std::vector<jit::KernelSpec>& specs) { enumerate_matmul_kernels(specs); }

}  // namespace gpk::ops
