// Every kernel of the family, for the PTX bundle, `cache warm` and the compile tests.
#include "ops/matmul/finish.h"
#include "ops/matmul/grouped.h"
#include "ops/matmul/plan.h"
#include "ops/matmul/swiglu.h"
#include "ops/op.h"

namespace gpk::ops {

void enumerate_matmul(std::vector<jit::KernelSpec>& specs) {
#define GPK_ENGINE(name) enumerate_##name(specs);
#include "ops/matmul/engines.def"
#undef GPK_ENGINE
  enumerate_finish(specs);
  enumerate_grouped(specs);
  enumerate_swiglu(specs);
}

}  // namespace gpk::ops
