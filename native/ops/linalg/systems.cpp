#include "ops/linalg/systems.h"

#include "base/error.h"
#include "base/linalg_error.h"
#include "base/text.h"
#include "core/view.h"
#include "ops/elementwise/copy.h"
#include "ops/linalg/stack.h"

namespace gpk::ops::linalg {

std::int64_t SystemDesc::result_size() const { return num_elements(shape(), "solve"); }

SystemDesc check_system(const Array& x1, const Array& x2, const char* op) {
  check_square(x1, "x1", op);
  if (x2.ndim() < 1)
    throw LinAlgError(cat(op, ": x2 has shape (), expected at least one dimension"));
  SystemDesc desc;
  desc.dtype = compute_dtype(x1, x2, op);
  desc.n = rows_of(x1);
  desc.vector = x2.ndim() == 1;
  const std::int64_t given = desc.vector ? x2.shape()[0] : rows_of(x2);
  if (given != desc.n)
    throw InvalidArgument(cat(op, ": x1 has shape ", to_string(x1.shape()), ", x2 has shape ",
                              to_string(x2.shape()), ", expected ", desc.n, " rows"));
  desc.sides = desc.vector ? 1 : cols_of(x2);
  desc.batch = desc.vector ? batch_of(x1) : broadcast_shapes(batch_of(x1), batch_of(x2), op);
  return desc;
}

Array empty_result(const SystemDesc& desc, Device device, const char* op) {
  return Array::empty(desc.shape(), desc.dtype, device, op);
}

Array right_hand_sides(const Array& x2, const SystemDesc& desc, const char* op) {
  const Array matrix = desc.vector ? expand_dims(x2, {1}, op) : x2;
  return copy_stack(broadcast_to(matrix, joined(desc.batch, {desc.n, desc.sides}), op), desc.dtype,
                    op);
}

Array system_matrices(const Array& x1, const SystemDesc& desc, const char* op) {
  return copy_stack(broadcast_to(x1, joined(desc.batch, {desc.n, desc.n}), op), desc.dtype, op);
}

Array as_result(const Array& stack, const SystemDesc& desc, const char* op) {
  return reshape(stack, desc.shape(), op);
}

}  // namespace gpk::ops::linalg
