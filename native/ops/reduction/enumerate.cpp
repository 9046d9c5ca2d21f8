// Every kernel of the family, for the PTX bundle, `cache warm` and the compile tests.
#include "ops/op.h"
#include "ops/reduction/scan.h"
#include "ops/reduction/variants.h"

namespace gpk::ops {

void enumerate_reduction(std::vector<jit::KernelSpec>& specs) {
  constexpr const char* kOps[kNumFunctors] = {"sum",    "prod",   "count_nonzero", "max",    "min",
                                              "argmax", "argmin", "var",           "nanmean"};
  for (const Variant& variant : all_variants())
    specs.push_back(reduce_spec(variant, kOps[static_cast<int>(variant.functor)]));
  enumerate_scan(specs);
}

}  // namespace gpk::ops
