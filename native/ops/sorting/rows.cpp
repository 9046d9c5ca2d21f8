#include "ops/sorting/rows.h"

#include "base/error.h"
#include "base/text.h"
#include "core/promote.h"
#include "core/view.h"
#include "ops/elementwise/copy.h"

namespace gpk::ops::sorting {
namespace {

// Axes with `axis` moved to the end.
Dims axes_with_last(int ndim, int axis) {
  Dims axes = Dims::filled(ndim, 0);
  int at = 0;
  for (int i = 0; i < ndim; ++i)
    if (i != axis) axes[at++] = i;
  axes[ndim - 1] = axis;
  return axes;
}

}  // namespace

Array axis_last(const Array& array, int axis, const char* op) {
  if (axis == array.ndim() - 1) return array;
  return permute(array, axes_with_last(array.ndim(), axis), op);
}

Array axis_back(const Array& array, int axis, const char* op) {
  const int ndim = array.ndim();
  if (axis == ndim - 1) return array;
  Dims axes = Dims::filled(ndim, 0);
  const Dims forward = axes_with_last(ndim, axis);
  for (int i = 0; i < ndim; ++i) axes[static_cast<int>(forward[i])] = i;
  return permute(array, axes, op);
}

Rows rows_along(const Array& array, int axis, const char* op) {
  const Array moved = axis_last(array, axis, op);
  const std::int64_t len = array.shape()[axis];
  return {contiguous(moved, op), moved.shape(), axis, len == 0 ? 0 : array.size() / len, len};
}

void check_compute_dtype(const Array& array, const char* argument, const char* op) {
  if (is_storage_only(array.dtype()))
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat(op, ": ", argument, " has dtype ", name(array.dtype()),
                              ", a storage type; cast it first"));
}

Array flatten(const Array& array, const char* op) { return reshape(array, {-1}, op); }

Array concatenate_flat(const Array& a, const Array& b, DType dtype, const char* op) {
  Array both = Array::empty({a.size() + b.size()}, dtype, a.device(), op);
  copy_into(slice_axis(both, 0, 0, a.size(), 1), flatten(a, op), op);
  copy_into(slice_axis(both, 0, a.size(), b.size(), 1), flatten(b, op), op);
  return both;
}

}  // namespace gpk::ops::sorting
