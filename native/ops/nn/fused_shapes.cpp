#include "ops/nn/fused_shapes.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "core/view.h"
#include "ops/nn/rows.h"

namespace gpk::ops::nn {
namespace {

std::int64_t last_axis(const Dims& shape) {
  return shape.size() == 0 ? 1 : shape[shape.size() - 1];
}

Dims shape_of(const Expression& expression, std::span<const Operand> operands, const char* op) {
  Dims shape;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].array == nullptr || (expression.arrays >> i & 1u) == 0) continue;
    Dims own = operands[i].array->shape();
    if ((expression.columns >> i & 1u) == 0 && own.size() > 0) own[own.size() - 1] = 1;
    if (!(shape == own)) shape = broadcast_shapes(shape, own, op);
  }
  return shape;
}

void check_devices(const char* name, std::span<const Operand> operands) {
  const Array* first = nullptr;
  for (const Operand& operand : operands) {
    if (operand.array == nullptr) continue;
    if (first == nullptr) first = operand.array;
    if (!(first->device() == operand.array->device()))
      throw InvalidArgument(cat(name, ": operands are on ", to_string(first->device()), " and ",
                                to_string(operand.array->device())));
  }
}

void check_use(const RowUse& use, const Dims& shape, std::int64_t width) {
  const auto refuse = [&](const auto&... expected) {
    throw InvalidArgument(
        cat(use.op, ": ", use.argument, " has shape ", to_string(shape), ", ", expected...));
  };
  if (use.is_vector) {
    if (!(shape == Dims{width})) refuse("expected (", width, ",)");
    return;
  }
  if (shape.size() == 0) refuse("expected at least 1 dimension");
  if (last_axis(shape) == 1 && width != 1)
    refuse("which is broadcast to rows of ", width, " elements; expected whole rows");
  if (last_axis(shape) != width)
    refuse("expected rows of ", width, " elements, as the function's other ops over rows have");
  if (use.needs_elements && width == 0) refuse("expected at least 1 element along the last axis");
  if (width > kMaxRowWidth) refuse("expected at most 2**31 - 2**16 elements along the last axis");
}

}  // namespace

FusedShapes check_fused_rows(const char* name, std::span<const Operand> operands,
                             std::span<const RowUse> uses, const Expression& result) {
  check_devices(name, operands);
  FusedShapes checked;
  checked.width = 1;
  for (const RowUse& use : uses) {
    if (checked.width != 1) break;
    if (!use.is_vector) checked.width = last_axis(shape_of(use.of, operands, use.op.c_str()));
  }
  if (checked.width == 1)  // an op over rows of one element is refused where the result has more
    checked.width = last_axis(shape_of(result, operands, name));
  for (const RowUse& use : uses)
    check_use(use, shape_of(use.of, operands, use.op.c_str()), checked.width);
  checked.result = shape_of(result, operands, name);
  const std::int64_t last = last_axis(checked.result);
  if (last != checked.width && last != 1)
    throw InvalidArgument(cat(name, ": the result has shape ", to_string(checked.result),
                              ", expected rows of ", checked.width,
                              " elements, as the function's ops over rows have"));
  checked.rows = 1;
  for (int axis = 0; axis + 1 < checked.result.size(); ++axis) checked.rows *= checked.result[axis];
  return checked;
}

RowAxes merge_rows(const Dims& shape, std::span<const Array* const> arrays) {
  RowAxes axes;
  for (int axis = shape.size() - 2; axis >= 0; --axis) {
    if (shape[axis] == 1) continue;
    std::int64_t* strides = axes.stride[axes.count];
    const int inner = axes.count - 1;
    bool merges = inner >= 0;
    for (std::size_t k = 0; k < arrays.size(); ++k) {
      const Array* array = arrays[k];
      const int own = array == nullptr ? -1 : axis - shape.size() + array->ndim();
      strides[k] = own < 0 || array->shape()[own] == 1 ? 0 : array->strides()[own];
      merges = merges && strides[k] == axes.stride[inner][k] * axes.size[inner];
    }
    if (merges) {
      axes.size[inner] *= shape[axis];
    } else {
      axes.size[axes.count++] = shape[axis];
    }
  }
  if (axes.count == 0) {
    axes.size[axes.count++] = 1;
    std::fill_n(axes.stride[0], arrays.size(), std::int64_t{0});
  }
  return axes;
}

}  // namespace gpk::ops::nn
