#include "ops/elementwise/options.h"

#include <list>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "core/promote.h"
#include "core/view.h"
#include "ops/elementwise/copy.h"

namespace gpk::ops {
namespace {

using elementwise::Types;

[[noreturn]] void refuse_dtype(const ElementwiseOp& op, DType asked, DType given) {
  throw InvalidArgument(InvalidArgument::Kind::kType,
                        cat(op.name, ": dtype is ", name(asked), ", the result has dtype ",
                            name(given), " and cannot be computed in it"));
}

// The operands in `dtype`, where the result does not have it anyway (as the bool of a comparison).
std::vector<Operand> cast_operands(const ElementwiseOp& op, std::span<const Operand> operands,
                                   DType dtype, std::list<Array>& made) {
  std::vector<Operand> given(operands.begin(), operands.end());
  const DType natural = elementwise::types_of(op, operands).result;
  if (natural == dtype) return given;
  std::vector<Operand> typed;  // what types_of() looks at
  for (const Operand& operand : operands) {
    const std::optional<DType> own =
        operand.array != nullptr ? std::optional(operand.array->dtype()) : operand.dtype;
    if (own && !can_cast_same_kind(*own, dtype)) refuse_dtype(op, dtype, natural);
    typed.push_back(own ? Operand(operand.scalar, dtype) : operand);
  }
  if (elementwise::types_of(op, typed).result != dtype) refuse_dtype(op, dtype, natural);
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i].array == nullptr)
      given[i] = typed[i];
    else
      given[i] = Operand(made.emplace_back(cast(*given[i].array, dtype, op.name)));
  }
  return given;
}

// Shape of the result, mask included.
Dims check_where(const ElementwiseOp& op, std::span<const Operand> operands, const Array& where) {
  const auto checked = elementwise::check_operands(op.name, operands, operands.size());
  if (where.dtype() != DType::kBool)
    throw InvalidArgument(
        InvalidArgument::Kind::kType,
        cat(op.name, ": where has dtype ", name(where.dtype()), ", expected bool"));
  if (!(where.device() == checked.device))
    throw InvalidArgument(cat(op.name, ": where is on ", to_string(where.device()),
                              ", the operands on ", to_string(checked.device)));
  return broadcast_shapes(checked.shape, where.shape(), op.name);
}

}  // namespace

Array run_elementwise(OpId id, std::span<const Operand> operands, const Array* out,
                      const ElementwiseOptions& options) {
  const ElementwiseOp& op = elementwise_op(id);
  std::optional<Dims> shape;
  if (options.where != nullptr) shape = check_where(op, operands, *options.where);
  std::list<Array> made;
  std::vector<Operand> given(operands.begin(), operands.end());
  if (options.dtype) given = cast_operands(op, operands, *options.dtype, made);
  if (!shape) return run_elementwise(id, given, out);
  const DType dtype = elementwise::types_of(op, given).result;
  const Device device = options.where->device();
  if (out != nullptr) elementwise::check_broadcast_out(op.name, *out, *shape, dtype, device);
  const Array result = run_elementwise(id, given);
  if (out != nullptr) {
    const Array narrowed = cast(result, out->dtype(), op.name);
    const Operand chosen[] = {*options.where, narrowed, *out};
    return run_elementwise(OpId::where, chosen, out);
  }
  if (result.shape() == *shape) return result;
  const Array wide = Array::empty(*shape, dtype, device, op.name);
  copy_into(wide, result, op.name);
  return wide;
}

}  // namespace gpk::ops
