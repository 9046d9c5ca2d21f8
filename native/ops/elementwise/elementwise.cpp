#include "ops/elementwise/elementwise.h"

#include "core/error.h"
#include "core/promote.h"
#include "core/text.h"
#include "core/view.h"
#include "ops/cpu_backend.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/map.h"

namespace gpk::ops {
namespace {

constexpr ElementwiseOp kOps[] = {
#define GPK_ELEMENTWISE(name, arity, functor, rule, doc) \
  {OpId::name, #name, arity, #functor, Rule::rule},
#include "ops/elementwise/ops.def"
#undef GPK_ELEMENTWISE
};
static_assert(std::size(kOps) < 240, "pack_map has eight bits for the op");

// An integer that the dtype cannot hold is compared as a wider one: no int8 equals 1000.
DType widen_for_test(Rule rule, DType common, std::span<const Operand> operands) {
  if (rule != Rule::kTest || !is_integer(common)) return common;
  for (const Operand& operand : operands) {
    if (operand.array != nullptr || operand.dtype) continue;
    const auto* number = std::get_if<std::int64_t>(&operand.scalar);
    if (std::holds_alternative<std::uint64_t>(operand.scalar))
      return info(common).kind == DTypeClass::kUnsigned ? DType::kUInt64 : DType::kFloat64;
    if (number == nullptr) continue;
    const bool is_unsigned = info(common).kind == DTypeClass::kUnsigned;
    const int bits = info(common).bits - (is_unsigned ? 0 : 1);
    const bool fits = bits >= 63 ? !is_unsigned || *number >= 0
                                 : *number < (std::int64_t{1} << bits) &&
                                       *number >= (is_unsigned ? 0 : -(std::int64_t{1} << bits));
    if (!fits) return bits >= 63 ? DType::kFloat64 : DType::kInt64;
  }
  return common;
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
  run_map(static_cast<unsigned>(op.id), op.name, op.functor, types.common,
          {mapped, operands.size()}, result);
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

const ElementwiseOp& elementwise_op(OpId id) { return kOps[static_cast<std::size_t>(id)]; }
std::span<const ElementwiseOp> elementwise_ops() { return kOps; }

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
  return resolve_types(op.rule, widen_for_test(op.rule, common, operands), op.name);
}

void check_out(const char* op, const Array& out, const Dims& shape, DType result, Device device) {
  if (!(out.shape() == shape) && !(broadcast_shapes(shape, out.shape(), op) == out.shape()))
    throw InvalidArgument(cat(op, ": out has shape ", to_string(out.shape()),
                              ", the result has shape ", to_string(shape)));
  if (!can_cast_same_kind(result, out.dtype()) || is_storage_only(out.dtype()))
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat(op, ": out has dtype ", name(out.dtype()), ", which the result's ",
                              name(result), " cannot be cast to"));
  if (!(out.device() == device))
    throw InvalidArgument(cat(op, ": out is on ", to_string(out.device()), ", the operands are on ",
                              to_string(device)));
}

Array elementwise(OpId id, std::span<const Operand> operands, const Array* out) {
  const ElementwiseOp& op = elementwise_op(id);
  const CheckedOperands checked =
      check_operands(op.name, operands, op.rule == Rule::kSelect ? 1 : 0);
  const DType common = widen_for_test(op.rule, checked.common, operands);
  const Types types = resolve_types(op.rule, common, op.name);
  if (id == OpId::pow) check_exponent(operands[1], types.common);
  if (out != nullptr) check_out(op.name, *out, checked.shape, types.result, checked.device);
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
