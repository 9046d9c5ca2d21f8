#include "ops/elementwise/copy.h"

#include "core/error.h"
#include "core/text.h"
#include "core/view.h"
#include "ops/cpu_backend.h"

namespace gpk::ops {

void copy_into(const Array& dst, const Array& src, const char* op) {
  if (!(dst.device() == src.device()))
    throw InvalidArgument(
        cat(op, ": the arrays are on ", to_string(dst.device()), " and ", to_string(src.device())));
  const Array from = broadcast_to(src, dst.shape(), op);
  if (dst.size() == 0) return;
  if (!dst.device().is_cuda()) {
    run_on_cpu({"copy", {from}, {dst}});
    return;
  }
  copy(dst, from, op);
}

Array copy_as(const Array& array, DType dtype, const char* op) {
  Array result = Array::empty(array.shape(), dtype, array.device(), op);
  copy_into(result, array, op);
  return result;
}

Array contiguous(const Array& array, const char* op) {
  return array.is_contiguous() ? array : copy_as(array, array.dtype(), op);
}

Array cast(const Array& array, DType dtype, const char* op) {
  return array.dtype() == dtype ? array : copy_as(array, dtype, op);
}

Array reshape(const Array& array, const Dims& shape, const char* op) {
  const Dims target = resolve_shape(shape, array.size(), op);
  if (auto view = try_reshape(array, target)) return *view;
  return *try_reshape(copy_as(array, array.dtype(), op), target);
}

}  // namespace gpk::ops
