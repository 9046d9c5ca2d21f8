// Every kernel of the family, for the PTX bundle, `cache warm` and the compile tests.
#include "ops/op.h"
#include "ops/reduction/scan.h"
#include "ops/reduction/variants.h"

namespace gpk::ops {
namespace {

using namespace reduction;

struct Use {
  Functor functor;
  const char* op;
};

constexpr Use kUses[] = {
#define GPK_REDUCTION(name, rule, functor, finish, elements, doc) {Functor::k##functor, #name},
#define GPK_SCAN(name, functor, elements, doc)
#include "ops/reduction/ops.def"
};

// The first op that uses the functor.
const char* op_of(Functor functor) {
  for (const Use& use : kUses)
    if (use.functor == functor) return use.op;
  return "";
}

}  // namespace

void enumerate_reduction(std::vector<jit::KernelSpec>& specs) {
  for (const Variant& variant : all_variants())
    specs.push_back(reduce_spec(variant, op_of(variant.functor)));
  enumerate_scan(specs);
}

}  // namespace gpk::ops
