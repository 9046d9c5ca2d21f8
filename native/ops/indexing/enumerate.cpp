// Every kernel of the family, for the PTX bundle, `cache warm` and the compile tests.
#include "ops/indexing/mask.h"
#include "ops/indexing/move.h"

namespace gpk::ops {

void enumerate_indexing(std::vector<jit::KernelSpec>& specs) {
  indexing::enumerate_move(specs);
  indexing::enumerate_mask(specs);
}

}  // namespace gpk::ops
