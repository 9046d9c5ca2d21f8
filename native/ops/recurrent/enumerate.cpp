// Every kernel of the family, for the PTX bundle, `cache warm` and the compile tests.
#include "ops/recurrent/kernels.h"

namespace gpk::ops {

void enumerate_recurrent(std::vector<jit::KernelSpec>& specs) {
  recurrent::enumerate_cells(specs);
  recurrent::enumerate_scan(specs);
}

}  // namespace gpk::ops
