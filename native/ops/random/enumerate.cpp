// Every kernel of the family, for the PTX bundle, `cache warm` and the compile tests.
#include "ops/op.h"
#include "ops/random/generate.h"
#include "ops/random/variate.h"

namespace gpk::ops {

void enumerate_random(std::vector<jit::KernelSpec>& specs) {
  random::enumerate_generate(specs);
  random::enumerate_variates(specs);
}

}  // namespace gpk::ops
