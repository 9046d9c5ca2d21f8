#include "ops/op.h"

namespace gpk::ops {

const std::vector<OpInfo>& op_list() {
  static const std::vector<OpInfo> list{
#define GPK_OP(name, family, doc) {OpId::name, #name, #family, doc},
#include "ops/op_list.def"
#undef GPK_OP
  };
  return list;
}

std::vector<jit::KernelSpec> all_kernel_specs() {
  std::vector<jit::KernelSpec> specs;
#define GPK_OP(name, family, doc) enumerate_##name(specs);
#include "ops/op_list.def"
#undef GPK_OP
  enumerate_fill(specs);
  return specs;
}

}  // namespace gpk::ops
