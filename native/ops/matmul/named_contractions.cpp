// The contractions with names.
#include "base/error.h"
#include "base/text.h"
#include "core/promote.h"
#include "core/view.h"
#include "ops/elementwise/copy.h"
#include "ops/matmul/contraction.h"
#include "ops/matmul/matmul.h"
#include "ops/reduction/reduce.h"

namespace gpk::ops {
namespace {

void check_aligned(const Array& x1, int axis1, const Array& x2, int axis2, const char* op) {
  if (x1.shape()[axis1] != x2.shape()[axis2])
    throw InvalidArgument(cat(op, ": shapes ", to_string(x1.shape()), " and ",
                              to_string(x2.shape()), " not aligned: ", x1.shape()[axis1], " (dim ",
                              axis1, ") != ", x2.shape()[axis2], " (dim ", axis2, ")"));
}

Array sum_products(const Array& x1, int axis1, const Array& x2, int axis2, const char* op) {
  gemm::check_operands(x1, x2, op);
  check_aligned(x1, axis1, x2, axis2, op);
  return tensordot(x1, x2, {axis1}, {axis2}, op);
}

Array flat(const Array& x, const char* op) { return reshape(x, {-1}, op); }

}  // namespace

Array tensordot(const Array& x1, const Array& x2, std::int64_t count) {
  if (count < 0) throw InvalidArgument(cat("tensordot: axes is ", count, ", expected 0 or more"));
  if (count > x1.ndim() || count > x2.ndim())
    throw InvalidArgument(InvalidArgument::Kind::kAxis,
                          cat("tensordot: axes is ", count, ", x1 has shape ",
                              to_string(x1.shape()), ", x2 has shape ", to_string(x2.shape())));
  Dims axes1 = Dims::filled(static_cast<int>(count), 0);
  Dims axes2 = axes1;
  for (int i = 0; i < axes1.size(); ++i) {
    axes1[i] = x1.ndim() - count + i;
    axes2[i] = i;
  }
  return tensordot(x1, x2, axes1, axes2);
}

Array dot(const Array& x1, const Array& x2) {
  if (x1.ndim() == 0 || x2.ndim() == 0) return tensordot(x1, x2, {}, {}, "dot");
  return sum_products(x1, x1.ndim() - 1, x2, x2.ndim() == 1 ? 0 : x2.ndim() - 2, "dot");
}

Array inner(const Array& x1, const Array& x2) {
  if (x1.ndim() == 0 || x2.ndim() == 0) return tensordot(x1, x2, {}, {}, "inner");
  return sum_products(x1, x1.ndim() - 1, x2, x2.ndim() - 1, "inner");
}

Array outer(const Array& x1, const Array& x2) {
  gemm::check_operands(x1, x2, "outer");
  return tensordot(flat(x1, "outer"), flat(x2, "outer"), {}, {}, "outer");
}

Array vdot(const Array& x1, const Array& x2) {
  gemm::check_operands(x1, x2, "vdot");
  if (x1.size() != x2.size())
    throw InvalidArgument(cat("vdot: x1 has shape ", to_string(x1.shape()), " and ", x1.size(),
                              " elements, x2 has shape ", to_string(x2.shape()), " and ",
                              x2.size()));
  return vecdot(flat(x1, "vdot"), flat(x2, "vdot"));
}

Array kron(const Array& x1, const Array& x2) {
  gemm::check_operands(x1, x2, "kron");
  const int rank = std::max(x1.ndim(), x2.ndim());
  const auto padded = [&](const Array& x) {
    Dims axes = Dims::filled(rank - x.ndim(), 0);
    for (int i = 0; i < axes.size(); ++i) axes[i] = i;
    return expand_dims(x, axes, "kron");
  };
  const Array a = padded(x1);
  const Array b = padded(x2);
  const Array blocks = tensordot(a, b, {}, {}, "kron");  // axes of a, then of b
  Dims order = Dims::filled(2 * rank, 0);
  Dims shape = Dims::filled(rank, 0);
  for (int i = 0; i < rank; ++i) {
    order[2 * i] = i;
    order[2 * i + 1] = rank + i;
    shape[i] = a.shape()[i] * b.shape()[i];
  }
  return reshape(permute(blocks, order, "kron"), shape, "kron");
}

Array trace(const Array& x, std::int64_t offset, std::int64_t axis1, std::int64_t axis2,
            std::optional<DType> dtype) {
  if (x.ndim() < 2)
    throw InvalidArgument(
        cat("trace: x has shape ", to_string(x.shape()), ", expected at least two dimensions"));
  const Dims axes = normalize_axes({axis1, axis2}, x.ndim(), "trace");
  const Array line =
      diagonal(x, offset, static_cast<int>(axes[0]), static_cast<int>(axes[1]), "trace");
  ReduceOptions options;
  options.axes = Dims{-1};
  options.dtype = dtype;
  return reduce(OpId::sum, line, options);
}

Array matrix_transpose(const Array& x) {
  if (x.ndim() < 2)
    throw InvalidArgument(cat("matrix_transpose: x has shape ", to_string(x.shape()),
                              ", expected at least two dimensions"));
  Dims axes = Dims::filled(x.ndim(), 0);
  for (int i = 0; i < axes.size(); ++i) axes[i] = i;
  std::swap(axes[axes.size() - 2], axes[axes.size() - 1]);
  return permute(x, axes, "matrix_transpose");
}

}  // namespace gpk::ops
