// Every kernel of the family, for the PTX bundle, `cache warm` and the compile tests.
#include "ops/linalg/bidiagonal.h"
#include "ops/linalg/divide.h"
#include "ops/linalg/leaves.h"
#include "ops/linalg/tridiagonal.h"
#include "ops/op.h"

namespace gpk::ops {

void enumerate_linalg(std::vector<jit::KernelSpec>& specs) {
  linalg::enumerate_leaves(specs);
  linalg::enumerate_tridiagonal(specs);
  linalg::enumerate_bidiagonal(specs);
  linalg::enumerate_divide(specs);
}

}  // namespace gpk::ops
