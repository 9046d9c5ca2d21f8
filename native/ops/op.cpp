#include "ops/op.h"

namespace gpk::ops {

const std::vector<OpInfo>& op_list() {
  static const auto& list = *new std::vector<OpInfo>{
  // threads outlive main()
#define GPK_OP(name, family, doc) {OpId::name, #name, #family, doc},
#include "ops/op_list.def"
#undef GPK_OP
  };
  return list;
}

std::vector<jit::KernelSpec> all_kernel_specs() {
  std::vector<jit::KernelSpec> specs;
#define GPK_FAMILY(name) enumerate_##name(specs);
#include "ops/families.def"
#undef GPK_FAMILY
  return specs;
}

}  // namespace gpk::ops
