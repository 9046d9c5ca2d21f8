// Every kernel of the family, for the PTX bundle, `cache warm` and the compile tests.
#include "ops/sampling/kernels.h"

namespace gpk::ops {

void enumerate_sampling(std::vector<jit::KernelSpec>& specs) {
  sampling::enumerate_sample(specs);
  sampling::enumerate_logprobs(specs);
  sampling::enumerate_token_counts(specs);
  sampling::enumerate_timestamp_rules(specs);
}

}  // namespace gpk::ops
