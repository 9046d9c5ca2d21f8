#include "ops/op.h"

#include "ops/reduction/rules.h"

namespace gpk::ops {

const std::vector<OpInfo>& op_list() {
  static const auto& list = *new std::vector<OpInfo>{
  // threads outlive main()
#define GPK_OP(name, family, module, signature, doc) {#name, #family, #module, signature, doc},
#include "ops/op_list.def"
  };
  return list;
}

const std::vector<OpInfo>& function_list() {
  static const auto& list = *new std::vector<OpInfo>{
#define GPK_FUNCTION(name, module, signature, doc) {#name, "", #module, signature, doc},
#include "ops/op_list.def"
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
