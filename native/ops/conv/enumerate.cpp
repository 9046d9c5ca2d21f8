// Every kernel of the family, for the PTX bundle, `cache warm` and the compile tests.
#include "ops/conv/kernels.h"

namespace gpk::ops {

void enumerate_conv(std::vector<jit::KernelSpec>& specs) {
  conv::enumerate_mma(specs);
  conv::enumerate_direct(specs);
  conv::enumerate_causal(specs);
}

}  // namespace gpk::ops
