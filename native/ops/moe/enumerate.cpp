// Every kernel of the family, for the PTX bundle, `cache warm` and the compile tests.
#include "ops/moe/kernels.h"

namespace gpk::ops {

void enumerate_moe(std::vector<jit::KernelSpec>& specs) {
  moe::enumerate_route(specs);
  moe::enumerate_permute(specs);
  moe::enumerate_unpermute(specs);
}

}  // namespace gpk::ops
