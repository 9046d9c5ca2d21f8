// Every kernel of the family, for the PTX bundle, `cache warm` and the compile tests.
#include "ops/kv_cache/kernels.h"

namespace gpk::ops {

void enumerate_kv_cache(std::vector<jit::KernelSpec>& specs) {
  kv_cache::enumerate_write(specs);
  kv_cache::enumerate_pages(specs);
}

}  // namespace gpk::ops
