#include "ops/elementwise/elementwise.h"

#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "core/promote.h"
#include "core/view.h"
#include "ops/cpu_backend.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/map.h"
#include "ops/output.h"

namespace gpk::ops::elementwise {
namespace {

constexpr ElementwiseOp kOps[] = {
#define GPK_ELEMENTWISE(name, names, functor, rule, doc) \
  {OpId::name, #name, static_cast<int>(count_names(names)), #functor, Rule::rule},
#include "ops/elementwise/ops.def"
};
static_assert(std::size(kOps) <= kCopyOp, "op numbers of map_key");

bool fits(DType integer, const Scalar& scalar) {
  try {
    to_bytes(scalar, integer, "");
  } catch (const InvalidArgument&) {
    return false;
  }
  return true;
}

bool is_negative(const Scalar& scalar) {
  const auto* number = std::get_if<std::int64_t>(&scalar);
  return number != nullptr && *number < 0;
}

// Numbers that mean the same to the op: a condition is a bool; an integer that the arrays' dtype
// cannot hold compares as an infinity does. nullopt when all stay as they are.
std::optional<std::vector<Operand>> replace_numbers(Rule rule, DType common,
                                                    std::span<const Operand> operands) {
  std::optional<std::vector<Operand>> replaced;
  const auto replace = [&](std::size_t i, const Scalar& scalar) {
    if (!replaced) replaced.emplace(operands.begin(), operands.end());
    (*replaced)[i] = Operand(scalar);
  };
  if (rule == Rule::kSelect && operands[0].array == nullptr &&
      !std::holds_alternative<bool>(operands[0].scalar))
    replace(0, std::visit([](auto value) { return Scalar(value != decltype(value){}); },
                          operands[0].scalar));
  if (rule != Rule::kTest || !is_integer(common)) return replaced;
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (operands[i].array == nullptr && !operands[i].dtype && !fits(common, operands[i].scalar))
      replace(i, is_negative(operands[i].scalar) ? -HUGE_VAL : HUGE_VAL);
  return replaced;
}

// It takes no part in the promotion that refuses storage types.
void check_condition(const Operand& condition, const char* op) {
  if (condition.array != nullptr) resolve_types(Rule::kSelect, condition.array->dtype(), op);
}

// Arrays and NumPy scalars first, then Python's numbers, which only raise the kind.
DType common_dtype(const char* op, std::span<const Operand> operands) {
  std::optional<DType> common;
  for (const Operand& operand : operands) {
    const std::optional<DType> own =
        operand.array != nullptr ? std::optional(operand.array->dtype()) : operand.dtype;
    if (own) common = common ? promote_types(*common, *own, op) : *own;
  }
  for (const Operand& operand : operands)
    if (operand.array == nullptr && !operand.dtype)
      common = common ? promote_scalar(*common, operand.scalar, op) : default_dtype(operand.scalar);
  return *common;
}

// Functions that turn integers into floats: the floats of the operands promoted, not the float of
// the promoted integer. So int8 with uint8 gives float16, which holds both, although int16 is
// their common dtype.
Types types_for(const ElementwiseOp& op, DType common, std::span<const Operand> operands) {
  const bool to_float = op.rule == Rule::kFloat || op.rule == Rule::kRealFloat;
  if (!to_float || operands.size() < 2 || !is_integer(common) || is_storage_only(common))
    return resolve_types(op.rule, common, op.name);
  std::optional<DType> own_common;
  DType floating = DType::kFloat16;
  for (const Operand& operand : operands) {
    const std::optional<DType> own =
        operand.array != nullptr ? std::optional(operand.array->dtype()) : operand.dtype;
    if (!own) continue;
    own_common = own_common ? promote_types(*own_common, *own, op.name) : *own;
    floating = promote_types(floating, float_for(*own), op.name);
  }
  const bool by_arrays = own_common == common;  // else a Python number raised the kind
  return resolve_types(op.rule, by_arrays ? floating : common, op.name);
}

// Of arrays of exponents only the CPU knows in time.
void check_exponent(const Operand& exponent, DType common) {
  const auto* number = std::get_if<std::int64_t>(&exponent.scalar);
  if (exponent.array == nullptr && number != nullptr && *number < 0 && is_integer(common))
    throw InvalidArgument(cat("pow: integers to negative integer powers are not allowed, got ",
                              *number, " for dtype ", name(common)));
}

// Results of operands that all lie alike, dense but not in C order, lie like them.
Array empty_result(const Dims& shape, DType dtype, Device device, std::span<const Operand> operands,
                   const char* op) {
  const Array* like = nullptr;
  for (const Operand& operand : operands) {
    if (operand.array == nullptr || operand.array->ndim() == 0) continue;
    if (like == nullptr) like = operand.array;
    if (!(operand.array->shape() == shape) || !(operand.array->strides() == like->strides()))
      return Array::empty(shape, dtype, device, op);
  }
  if (like == nullptr || like->is_contiguous() || !is_dense_permuted(*like))
    return Array::empty(shape, dtype, device, op);
  const Array flat = Array::empty(Dims{like->size()}, dtype, device, op);
  return {shape, like->strides(), dtype, flat.buffer(), 0};
}

void run_on_gpu(const ElementwiseOp& op, const Types& types, std::span<const Operand> operands,
                const Array& result) {
  MapOperand mapped[4];
  std::optional<Array> copies[4];
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Operand& operand = operands[i];
    if (operand.array == nullptr) {
      mapped[i].number = compute_number(operand.scalar, types.common, op.name);
      continue;
    }
    mapped[i].array = operand.array;
    const bool condition = op.rule == Rule::kSelect && i == 0;
    if (condition && itemsize(operand.array->dtype()) > 1) {
      copies[i] = copy_as(*operand.array, DType::kBool, op.name);
    } else if (may_overlap(*operand.array, result) && !same_place(*operand.array, result)) {
      copies[i] = copy_as(*operand.array, operand.array->dtype(), op.name);
    }
    if (copies[i]) mapped[i].array = &*copies[i];
  }
  // Narrow types compute in wider ones: rounded and wrapped before a cast to an `out` of another.
  const bool through =
      result.dtype() != types.result && compute_dtype(types.result) != types.result;
  const Array target =
      through ? Array::empty(result.shape(), types.result, result.device(), op.name) : result;
  run_map(static_cast<unsigned>(op.id), op.name, op.functor, types.common,
          {mapped, operands.size()}, target);
  if (through) copy_into(result, target, op.name);
}

void run_reference(const ElementwiseOp& op, const Types& types, std::span<const Operand> operands,
                   const Array& result) {
  std::vector<CpuArg> args;
  for (const Operand& operand : operands) {
    if (operand.array == nullptr) {
      to_bytes(operand.scalar, types.common, op.name);  // the same errors as on a GPU
      args.emplace_back(operand.scalar);
    } else if (may_overlap(*operand.array, result) && !same_place(*operand.array, result)) {
      args.emplace_back(copy_as(*operand.array, operand.array->dtype(), op.name));
    } else {
      args.emplace_back(*operand.array);
    }
  }
  run_on_cpu({op.name, std::move(args), {result}, {{"dtype", types.common}}});
}

}  // namespace

CheckedOperands check_operands(const char* op, std::span<const Operand> operands,
                               std::size_t first_promoted) {
  CheckedOperands checked;
  const Array* first = nullptr;
  for (const Operand& operand : operands) {
    if (operand.array != nullptr) {
      if (first == nullptr) {
        first = operand.array;
        checked.shape = first->shape();
      } else {
        if (!(first->device() == operand.array->device()))
          throw InvalidArgument(cat(op, ": operands are on ", to_string(first->device()), " and ",
                                    to_string(operand.array->device())));
        if (!(checked.shape == operand.array->shape()))
          checked.shape = broadcast_shapes(checked.shape, operand.array->shape(), op);
      }
    }
  }
  if (first == nullptr)
    throw InvalidArgument(InvalidArgument::Kind::kType, cat(op, ": one operand must be an array"));
  checked.device = first->device();
  if (first_promoted < operands.size())
    checked.common = common_dtype(op, operands.subspan(first_promoted));
  return checked;
}

Types types_of(const ElementwiseOp& op, std::span<const Operand> operands) {
  const DType common = common_dtype(op.name, operands.subspan(op.rule == Rule::kSelect ? 1 : 0));
  if (const auto replaced = replace_numbers(op.rule, common, operands))
    return types_of(op, *replaced);
  return types_for(op, common, operands);
}

void check_broadcast_out(const char* op, const Array& out, const Dims& shape, DType result,
                         Device device) {
  if (!(out.shape() == shape) && !(broadcast_shapes(shape, out.shape(), op) == out.shape()))
    throw InvalidArgument(cat(op, ": out has shape ", to_string(out.shape()),
                              ", the result has shape ", to_string(shape)));
  check_out_memory(out, result, device, op);
}

}  // namespace gpk::ops::elementwise

namespace gpk::ops {

const ElementwiseOp& elementwise_op(OpId id) {
  return elementwise::kOps[static_cast<std::size_t>(id)];
}
std::span<const ElementwiseOp> elementwise_ops() { return elementwise::kOps; }

Array run_elementwise(OpId id, std::span<const Operand> operands, const Array* out) {
  using namespace elementwise;
  const ElementwiseOp& op = elementwise_op(id);
  const CheckedOperands checked =
      check_operands(op.name, operands, op.rule == Rule::kSelect ? 1 : 0);
  const Types types = types_for(op, checked.common, operands);
  if (id == OpId::pow) check_exponent(operands[1], types.common);
  if (op.rule == Rule::kSelect) check_condition(operands[0], op.name);
  if (const auto replaced = replace_numbers(op.rule, checked.common, operands))
    return run_elementwise(id, *replaced, out);
  if (out != nullptr)
    check_broadcast_out(op.name, *out, checked.shape, types.result, checked.device);
  for (const Operand& operand : operands)  // a number that does not fit must not cost memory
    if (operand.array == nullptr) to_bytes(operand.scalar, types.common, op.name);
  Array result = out != nullptr
                     ? *out
                     : empty_result(checked.shape, types.result, checked.device, operands, op.name);
  if (result.size() == 0) return result;
  if (result.device().is_cuda()) {
    run_on_gpu(op, types, operands, result);
  } else {
    run_reference(op, types, operands, result);
  }
  return result;
}

}  // namespace gpk::ops
