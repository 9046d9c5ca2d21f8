// Every kernel of the family, for the PTX bundle, `cache warm` and the compile tests.
#include "ops/matmul/finish.h"
#include "ops/matmul/plan.h"
#include "ops/matmul/swiglu.h"
#include "ops/op.h"

namespace gpk::ops {

void enumerate_matmul(std::vector<jit::KernelSpec>& specs) {
#define GPK_ENGINE(name) gemm::enumerate_##name(specs);
#include "ops/matmul/engines.def"
#undef GPK_ENGINE
  gemm::enumerate_finish(specs);
  gemm::enumerate_swiglu(specs);
}

}  // namespace gpk::ops
