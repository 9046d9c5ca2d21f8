// Every kernel of the family, for the PTX bundle, `cache warm` and the compile tests.
#include <set>

#include "core/error.h"
#include "core/promote.h"
#include "core/text.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/fill.h"
#include "ops/elementwise/map.h"
#include "ops/elementwise/packed.h"
#include "ops/elementwise/transpose.h"

namespace gpk::ops {
namespace {

// The dtypes a rule computes in.
std::set<DType> common_dtypes(const ElementwiseOp& op) {
  std::set<DType> found;
  for (const DTypeInfo& row : gpk::detail::kDTypes) {
    try {
      found.insert(resolve_types(op.rule, row.dtype, op.name).common);
    } catch (const InvalidArgument&) {  // not one of them
    }
  }
  return found;
}

// Where the kernel for any layout could stand in, but these are worth their place in the bundle.
bool is_common(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kInt64 || dtype == DType::kBool;
}

constexpr unsigned kSecondIsNumber = 8;  // MapPlan::kinds

std::string dense_expression(const ElementwiseOp& op, DType dtype, unsigned kinds = 0) {
  const Types types = resolve_types(op.rule, dtype, op.name);
  const std::size_t widest = std::max(itemsize(dtype), itemsize(types.result));
  std::string text =
      cat("gpk::map_dense<gpk::", op.functor, ", ", info(dtype).cuda_name, ", ",
          info(types.result).cuda_name, ", ", 16 / widest, ", ", kMapUnroll, ", ", kinds, "u");
  for (int i = 0; i < op.arity; ++i) text += cat(", ", info(dtype).cuda_name);
  return text + ">";
}

void enumerate_op(std::vector<jit::KernelSpec>& specs, const ElementwiseOp& op) {
  std::set<std::string> any;
  for (const DType dtype : common_dtypes(op)) {
    specs.push_back(map_spec(op.name, dense_expression(op, dtype), is_common(dtype)));
    specs.back().prefetched = dtype == DType::kFloat32;
    if (op.arity == 2 && (dtype == DType::kFloat32 || dtype == DType::kInt64))
      specs.push_back(map_spec(op.name, dense_expression(op, dtype, kSecondIsNumber), true));
    any.insert(any_expression(cat("gpk::", op.functor), dtype, static_cast<std::size_t>(op.arity)));
  }
  for (const std::string& expression : any) specs.push_back(map_spec(op.name, expression, true));
}

// Broadcast, strided and misaligned variants, on the op that needs least time to compile.
void enumerate_layouts(std::vector<jit::KernelSpec>& specs) {
  for (const char* form :
       {"gpk::map_dense<gpk::Add, float, float, 1, 2, 8u, float, float>",
        "gpk::map_dense<gpk::Add, float, float, 4, 2, 4u, float, float>",
        "gpk::map_strided<gpk::Add, float, float, 4, 2, 4, int, 4u, float, float>",
        "gpk::map_strided<gpk::Add, float, float, 1, 2, 32, int, 0u, float, float>",
        "gpk::map_strided<gpk::Add, double, double, 1, 2, 32, long long, 0u, int, double>"})
    specs.push_back(map_spec("add", form, false));
}

}  // namespace

void enumerate_elementwise(std::vector<jit::KernelSpec>& specs) {
  for (const ElementwiseOp& op : elementwise_ops()) enumerate_op(specs, op);
  enumerate_layouts(specs);
  std::set<std::string> copies;
  for (const DTypeInfo& row : gpk::detail::kDTypes)
    if (!is_storage_only(row.dtype)) copies.insert(any_expression("gpk::Copy", row.dtype, 1));
  for (const std::string& expression : copies) specs.push_back(map_spec("copy", expression, true));
  enumerate_transpose(specs);
  enumerate_packed(specs);
  enumerate_fill(specs);
}

}  // namespace gpk::ops
