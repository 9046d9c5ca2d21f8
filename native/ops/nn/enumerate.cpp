// Every kernel of the family, for the PTX bundle, `cache warm` and the compile tests.
#include "ops/nn/kernels.h"

namespace gpk::ops {

void enumerate_nn(std::vector<jit::KernelSpec>& specs) {
  nn::enumerate_norm(specs);
  nn::enumerate_softmax(specs);
  nn::enumerate_log_likelihood(specs);
  nn::enumerate_rope(specs);
  nn::enumerate_embedding(specs);
}

}  // namespace gpk::ops
