#include "ops/elementwise/fused.h"

#include "base/error.h"
#include "base/text.h"
#include "core/context.h"
#include "core/view.h"
#include "ops/elementwise/copy.h"
#include "plan/key_builder.h"

namespace gpk::ops {
namespace {

using namespace elementwise;

constexpr const char* kFile = "elementwise/map.cuh";

std::uint64_t variant_key(const MapPlan& plan) {
  return plan::KeyBuilder()
      .field("kinds", plan.kinds, 2 * (kMaxOperands - 1))
      .field("vec", plan.vec, 5)
      .field("form", plan.form, 2)
      .field("deep", plan.deep, 1)
      .field("wide", plan.wide, 1)
      .key();
}

}  // namespace

Fused::Fused(std::string name, std::string source, std::vector<Input> inputs, DType result)
    : name_(std::move(name)),
      source_(std::move(source)),
      inputs_(std::move(inputs)),
      result_(result) {
  if (inputs_.empty() || inputs_.size() >= kMaxOperands)
    throw InvalidArgument(
        cat("fuse: ", name_, " has ", inputs_.size(), " inputs, expected 1 to ", kMaxOperands - 1));
}

jit::CompileRequest Fused::request(const MapPlan& plan, int sm) const {
  std::vector<DType> dtypes;
  for (const Input& input : inputs_) dtypes.push_back(input.dtype);
  jit::KernelSpec spec;
  spec.file = kFile;
  spec.op = name_.c_str();
  spec.expression = map_expression(plan, "gpk::Fused", "gpk::Own", dtypes, result_);
  jit::CompileRequest request = jit::compile_request(spec, sm);
  request.source += source_;
  return request;
}

const Kernel& Fused::kernel_for(Context& context, const MapPlan& plan) {
  const std::lock_guard lock(mutex_);
  auto& kernel = kernels_[{&context, variant_key(plan)}];
  if (kernel) return *kernel;
  const jit::CompileRequest asked = request(plan, context.traits().sm);
  const jit::CompiledImage image = jit::compile_cached(asked);
  const auto module = Module::load(context, image.bytes, name_);
  kernel = module->kernel(image.symbol(asked.name_expressions.front()), name_.c_str());
  return *kernel;
}

Array Fused::run(std::span<const Operand> operands, const Array* out) {
  const char* op = name_.c_str();
  const CheckedOperands checked = check_operands(op, operands, operands.size());
  if (out != nullptr) {
    check_broadcast_out(op, *out, checked.shape, result_, checked.device);
    if (out->dtype() != result_)
      throw InvalidArgument(InvalidArgument::Kind::kType,
                            cat(op, ": out has dtype ", gpk::name(out->dtype()),
                                ", the result has ", gpk::name(result_)));
  }
  Array result = out != nullptr ? *out : Array::empty(checked.shape, result_, checked.device, op);
  if (result.size() == 0) return result;
  std::vector<MapOperand> mapped(operands.size());
  std::vector<Array> copies;
  copies.reserve(operands.size());
  std::vector<const Array*> arrays;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].array == nullptr) {
      mapped[i].number = compute_number(operands[i].scalar, inputs_[i].dtype, op);
    } else if (may_overlap(*operands[i].array, result) && !same_place(*operands[i].array, result)) {
      mapped[i].array = &copies.emplace_back(copy_as(*operands[i].array, inputs_[i].dtype, op));
    } else {
      mapped[i].array = operands[i].array;
    }
    arrays.push_back(mapped[i].array);
  }
  arrays.push_back(&result);
  const Layout layout = make_layout(result.shape(), arrays);
  const MapPlan plan = plan_map(layout, mapped, result, true);
  if (result.device().is_cuda())
    launch_map(kernel_for(Context::get(result.device().index), plan), plan, layout, mapped, result);
  else
    simulate_map(simulated_, variant_key(plan), request(plan, jit::host_sm()), plan, layout, mapped,
                 result);
  return result;
}

}  // namespace gpk::ops
