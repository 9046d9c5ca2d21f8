// Every kernel of the family, for the PTX bundle, `cache warm` and the compile tests.
#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "core/promote.h"
#include "ops/elementwise/concat.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/fill.h"
#include "ops/elementwise/map.h"
#include "ops/elementwise/map_params.h"
#include "ops/elementwise/packed.h"
#include "ops/elementwise/transpose.h"

namespace gpk::ops {
namespace {

using namespace elementwise;

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

constexpr auto kSecondIsOneElement = static_cast<std::uint32_t>(kernels::OperandKind::kOneElement)
                                     << 2;
constexpr auto kSecondIsNumber = static_cast<std::uint32_t>(kernels::OperandKind::kNumber) << 2;

// A kernel for the exact dtypes.
jit::KernelSpec exact_spec(const ElementwiseOp& op, const MapPlan& plan, DType common,
                           std::span<const DType> inputs, DType result, bool bundled) {
  const std::uint64_t key = map_key(plan, static_cast<unsigned>(op.id), common, inputs, result);
  return map_spec(
      op.name, map_expression(plan, cat("gpk::", op.functor), kernel_type(common), inputs, result),
      key, bundled);
}

jit::KernelSpec dense_spec(const ElementwiseOp& op, DType dtype, std::uint32_t kinds,
                           bool bundled) {
  const DType result = resolve_types(op.rule, dtype, op.name).result;
  MapPlan plan;
  plan.vec = static_cast<int>(16 / std::max(itemsize(dtype), itemsize(result)));
  plan.kinds = kinds;
  const std::vector<DType> inputs(static_cast<std::size_t>(op.arity), dtype);
  return exact_spec(op, plan, dtype, inputs, result, bundled);
}

// The kernel for any layout: one for all dtypes that are computed alike.
void enumerate_any(std::vector<jit::KernelSpec>& specs, unsigned op, const char* name,
                   const std::string& functor, const std::set<DType>& dtypes, std::size_t arity) {
  MapPlan plan;
  plan.form = MapPlan::Form::kAny;
  std::map<std::string, DType> found;
  for (const DType dtype : dtypes)
    found.emplace(any_expression(cat("gpk::", functor), dtype, arity), dtype);
  for (const auto& [expression, dtype] : found)
    specs.push_back(map_spec(name, expression, map_key(plan, op, dtype, {}, dtype), true));
}

void enumerate_op(std::vector<jit::KernelSpec>& specs, const ElementwiseOp& op) {
  const std::set<DType> dtypes = common_dtypes(op);
  for (const DType dtype : dtypes) {
    specs.push_back(dense_spec(op, dtype, 0, is_common(dtype)));
    specs.back().prefetched = dtype == DType::kFloat32;
    if (op.arity == 2 && (dtype == DType::kFloat32 || dtype == DType::kInt64))
      specs.push_back(dense_spec(op, dtype, kSecondIsNumber, true));
  }
  enumerate_any(specs, static_cast<unsigned>(op.id), op.name, op.functor, dtypes,
                static_cast<std::size_t>(op.arity));
}

// Broadcast, strided and misaligned variants, on the op that needs least time to compile.
void enumerate_layouts(std::vector<jit::KernelSpec>& specs) {
  const auto& ops = elementwise_ops();
  const auto add = std::find_if(ops.begin(), ops.end(),
                                [](const ElementwiseOp& op) { return op.id == OpId::add; });
  const auto push = [&](MapPlan::Form form, int vec, bool deep, bool wide, std::uint32_t kinds,
                        DType common, DType first) {
    MapPlan plan;
    plan.form = form;
    plan.vec = vec;
    plan.deep = deep;
    plan.wide = wide;
    plan.kinds = kinds;
    const DType inputs[] = {first, common};
    specs.push_back(exact_spec(*add, plan, common, inputs, common, false));
  };
  constexpr auto kDense = MapPlan::Form::kDense;
  constexpr auto kStrided = MapPlan::Form::kStrided;
  constexpr DType kF32 = DType::kFloat32;
  push(kDense, 1, false, false, kSecondIsNumber, kF32, kF32);
  push(kDense, 4, false, false, kSecondIsOneElement, kF32, kF32);
  push(kStrided, 4, false, false, kSecondIsOneElement, kF32, kF32);
  push(kStrided, 1, true, false, 0, kF32, kF32);
  push(kStrided, 1, true, true, 0, DType::kFloat64, DType::kInt32);
}

}  // namespace

void enumerate_elementwise(std::vector<jit::KernelSpec>& specs) {
  for (const ElementwiseOp& op : elementwise_ops()) enumerate_op(specs, op);
  enumerate_layouts(specs);
  std::set<DType> copied;
  for (const DTypeInfo& row : gpk::detail::kDTypes)
    if (!is_storage_only(row.dtype)) copied.insert(row.dtype);
  enumerate_any(specs, kCopyOp, "copy", "Copy", copied, 1);
  enumerate_transpose(specs);
  enumerate_packed(specs);
  enumerate_fill(specs);
  enumerate_concat(specs);
}

}  // namespace gpk::ops
