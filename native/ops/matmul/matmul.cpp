#include "ops/matmul/matmul.h"

#include "core/error.h"
#include "core/promote.h"
#include "core/text.h"
#include "core/view.h"
#include "ops/cpu_backend.h"
#include "ops/elementwise/copy.h"
#include "ops/matmul/product.h"
#include "ops/matmul/result.h"

namespace gpk::ops {
namespace {

std::string both_shapes(const Array& x1, const Array& x2) {
  return cat("x1 has shape ", to_string(x1.shape()), ", x2 has shape ", to_string(x2.shape()));
}

void check_rank(const Array& x1, const Array& x2, const char* op) {
  for (const int i : {0, 1}) {
    if ((i == 0 ? x1 : x2).ndim() > 0) continue;
    throw InvalidArgument(
        cat(op, ": Input operand ", i,
            " does not have enough dimensions (has 0, requires 1): ", both_shapes(x1, x2)));
  }
}

void check_core(std::int64_t size1, std::int64_t size2, int dimension, const Array& x1,
                const Array& x2, const char* op) {
  if (size1 != size2)
    throw InvalidArgument(cat(op, ": Input operand 1 has a mismatch in its core dimension ",
                              dimension, " (dimension mismatch: size ", size2,
                              " is different from ", size1, "): ", both_shapes(x1, x2)));
}

Dims leading(const Dims& shape, int dropped) {
  return Dims(shape.span().first(static_cast<std::size_t>(shape.size() - dropped)));
}

Dims joined(const Dims& first, std::initializer_list<std::int64_t> last) {
  Dims all = Dims::filled(first.size() + static_cast<int>(last.size()), 0);
  std::copy(last.begin(), last.end(), std::copy(first.begin(), first.end(), all.data()));
  return all;
}

// The common leading dimensions; the message has the whole shapes.
Dims broadcast_batch(const Dims& batch1, const Dims& batch2, const Array& x1, const Array& x2,
                     const char* op) {
  try {
    return broadcast_shapes(batch1, batch2, op);
  } catch (const InvalidArgument&) {
    throw InvalidArgument(
        cat(op, ": operands could not be broadcast together: ", both_shapes(x1, x2)));
  }
}

Array with_batch(const Array& array, const Dims& batch, const char* op) {
  const int rank = array.ndim();
  return broadcast_to(array, joined(batch, {array.shape()[rank - 2], array.shape()[rank - 1]}), op);
}

void check_tf32(std::optional<bool> use_tf32, DType dtype) {
  if (use_tf32.value_or(false) && dtype != DType::kFloat32)
    throw Error(cat("matmul: use_tf32=True needs float32 operands, got ", name(dtype)));
}

}  // namespace

DType check_operands(const Array& x1, const Array& x2, const char* op) {
  for (const Array* x : {&x1, &x2}) {
    if (is_storage_only(x->dtype()))
      throw InvalidArgument(InvalidArgument::Kind::kType,
                            cat(op, ": ", x == &x1 ? "x1" : "x2", " has dtype ", name(x->dtype()),
                                ", a storage type; cast it first"));
  }
  if (!(x1.device() == x2.device()))
    throw InvalidArgument(
        cat(op, ": x1 is on ", to_string(x1.device()), ", x2 on ", to_string(x2.device())));
  return promote_types(x1.dtype(), x2.dtype(), op);
}

Array multiply_stacks(const Array& a, const Array& b, const char* op) {
  const Array c = Array::empty(
      joined(leading(a.shape(), 2), {a.shape()[a.ndim() - 2], b.shape()[b.ndim() - 1]}), a.dtype(),
      a.device(), op);
  if (c.size() > 0) run_product({.a = a, .b = b, .c = c}, op);
  return c;
}

Array matmul(const Array& x1, const Array& x2, const std::optional<Array>& out,
             std::optional<bool> use_tf32) {
  constexpr const char* op = "matmul";
  check_rank(x1, x2, op);
  const DType dtype = check_operands(x1, x2, op);
  const bool row = x1.ndim() == 1;
  const bool column = x2.ndim() == 1;
  check_core(x1.shape()[x1.ndim() - 1], x2.shape()[column ? 0 : x2.ndim() - 2],
             column ? 0 : x2.ndim() - 2, x1, x2, op);
  check_tf32(use_tf32, dtype);
  const Dims batch = broadcast_batch(leading(x1.shape(), row ? 1 : 2),
                                     leading(x2.shape(), column ? 1 : 2), x1, x2, op);
  const std::int64_t m = row ? 1 : x1.shape()[x1.ndim() - 2];
  const std::int64_t n = column ? 1 : x2.shape()[x2.ndim() - 1];
  const Dims shape = row && column ? batch
                     : row         ? joined(batch, {n})
                     : column      ? joined(batch, {m})
                                   : joined(batch, {m, n});
  return fill_result(out, shape, dtype, x1, x2, op, [&](const Array& result) {
    const Array a = cast(x1, dtype, op);
    const Array b = cast(x2, dtype, op);
    Array c = row ? expand_dims(result, {batch.size()}, op) : result;
    if (column) c = expand_dims(c, {batch.size() + 1}, op);
    run_product({.a = with_batch(row ? expand_dims(a, {0}, op) : a, batch, op),
                 .b = with_batch(column ? expand_dims(b, {1}, op) : b, batch, op),
                 .c = c},
                op);
  });
}

namespace {

// The summed axis last, the others broadcast.
Array summed_last(const Array& array, int axis, const Dims& batch, const char* op) {
  Dims order = Dims::filled(array.ndim(), axis);
  for (int i = 0, at = 0; i < array.ndim(); ++i)
    if (i != axis) order[at++] = i;
  const Array moved = permute(array, order, op);
  return broadcast_to(moved, joined(batch, {array.shape()[axis]}), op);
}

Dims without(const Dims& shape, int axis) {
  Dims rest = Dims::filled(shape.size() - 1, 0);
  for (int i = 0, at = 0; i < shape.size(); ++i)
    if (i != axis) rest[at++] = shape[i];
  return rest;
}

}  // namespace

Array vecdot(const Array& x1, const Array& x2, std::int64_t axis, const std::optional<Array>& out) {
  constexpr const char* op = "vecdot";
  check_rank(x1, x2, op);
  const DType dtype = check_operands(x1, x2, op);
  const int axis1 = normalize_axis(axis, x1.ndim(), op);
  const int axis2 = normalize_axis(axis, x2.ndim(), op);
  check_core(x1.shape()[axis1], x2.shape()[axis2], axis2, x1, x2, op);
  const Dims batch =
      broadcast_batch(without(x1.shape(), axis1), without(x2.shape(), axis2), x1, x2, op);
  return fill_result(out, batch, dtype, x1, x2, op, [&](const Array& result) {
    const Array a = summed_last(cast(x1, dtype, op), axis1, batch, op);
    const Array b = summed_last(cast(x2, dtype, op), axis2, batch, op);
    if (!result.device().is_cuda()) {
      run_on_cpu({op, {a, b}, {result}});
      return;
    }
    const int rank = batch.size();
    run_product({.a = expand_dims(a, {rank}, op),
                 .b = expand_dims(b, {rank + 1}, op),
                 .c = expand_dims(result, {rank, rank + 1}, op),
                 .conjugate = is_complex(dtype)},
                op);
  });
}

}  // namespace gpk::ops
