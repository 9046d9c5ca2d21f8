#include "ops/linalg/stack.h"

#include <algorithm>
#include <limits>

#include "base/round_up.h"
#include "core/promote.h"
#include "core/view.h"
#include "ops/creation/eye.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/fill.h"
#include "ops/linalg/leaves.h"
#include "ops/linalg/plan.h"
#include "ops/matmul/gemm_call.h"

namespace gpk::ops::linalg {
namespace {

bool is_tiled(const Array& c, const Array& a) {
  return c.device().is_cuda() && c.ndim() == 3 &&
         takes_product(c.shape()[0], rows(c), cols(c), cols(a), c.dtype(),
                       device_traits(c.device()).multiprocessor_count);
}

}  // namespace

Array copy_stack(const Array& x, DType dtype, const char* op) {
  const Array copy = copy_as(x, dtype, op);
  const int rank = x.ndim();
  std::int64_t batch = 1;
  for (int i = 0; i < rank - 2; ++i) batch *= x.shape()[i];
  return reshape(copy, {batch, x.shape()[rank - 2], x.shape()[rank - 1]}, op);
}

Array unstack_to(const Array& stack, const Dims& shape, const char* op) {
  return reshape(stack, shape, op);
}

Array rows_from(const Array& a, std::int64_t row, std::int64_t num_rows) {
  return slice_axis(a, 1, row, num_rows, 1);
}

Array cols_from(const Array& a, std::int64_t col, std::int64_t num_cols) {
  return slice_axis(a, 2, col, num_cols, 1);
}

Array block(const Array& a, std::int64_t row, std::int64_t num_rows, std::int64_t col,
            std::int64_t num_cols) {
  return cols_from(rows_from(a, row, num_rows), col, num_cols);
}

Array transposed(const Array& a, const char* op) { return permute(a, {0, 2, 1}, op); }

Array reversed(const Array& a, int axis) {
  const std::int64_t size = a.shape()[axis];
  return slice_axis(a, axis, size - 1, size, -1);
}

Array adjoint(const Array& a, const char* op) { return conjugated(transposed(a, op), op); }

Array conjugated(const Array& a, const char*) { return is_complex(a.dtype()) ? conj(a) : a; }

Array product(const Array& a, const Array& b, const char* op) {
  const Array c = Array::empty({a.shape()[0], rows(a), cols(b)}, a.dtype(), a.device(), op);
  product_into(c, a, b, op);
  return c;
}

void product_into(const Array& c, const Array& a, const Array& b, const char* op) {
  if (c.size() == 0) return;
  if (a.shape()[a.ndim() - 1] == 0) {
    fill(c, Scalar(0.0), op);
    return;
  }
  if (is_tiled(c, a)) {
    matrix_product(c, a, b, false, op);
    return;
  }
  gemm::run_gemm({a, b, c}, op);
}

void subtract_product(const Array& c, const Array& a, const Array& b, const char* op) {
  if (c.size() == 0 || cols(a) == 0) return;
  if (is_tiled(c, a)) {
    matrix_product(c, a, b, true, op);
    return;
  }
  if (is_complex(c.dtype())) {  // whose kernels have no epilogue
    subtract(c, product(a, b, op), &c);
    return;
  }
  gemm::GemmCall call{a, b, c};
  call.epilogue.alpha = -1.0f;
  call.epilogue.residual = c;
  gemm::run_gemm(call, op);
}

Array identity_stack(std::int64_t batch, std::int64_t num_rows, std::int64_t num_cols, DType dtype,
                     Device device, const char* op) {
  const Array stack = Array::empty({batch, num_rows, num_cols}, dtype, device, op);
  if (stack.size() > 0) copy_into(stack, eye(num_rows, num_cols, 0, dtype, device), op);
  return stack;
}

Array power_of_two_scale(const Array& a, const Array& status, const char* op) {
  const Array largest = reduce(OpId::max, abs(a), along({1, 2}, true));  // NaN propagates
  const Array finite = isfinite(largest);
  const Array bad = reshape(logical_not(finite), status.shape(), op);
  bitwise_or(status, cast(bad, status.dtype(), op), &status);
  const Array usable = logical_and(finite, greater(largest, Scalar(0.0)));
  const Array safe = where(usable, largest, Scalar(1.0));
  // The logarithm of the largest numbers is rounded up to a power that would be infinite.
  const double most = is_double(safe.dtype()) ? std::numeric_limits<double>::max_exponent - 1
                                              : std::numeric_limits<float>::max_exponent - 1;
  return exp2(minimum(floor(log2(safe)), Scalar(most)));
}

ReduceOptions along(const Dims& axes, bool keepdims) {
  ReduceOptions options;
  options.axes = axes;
  options.keepdims = keepdims;
  return options;
}

std::int64_t split_at(std::int64_t n, std::int64_t unit, std::int64_t loop) {
  if (n <= loop) return unit;
  return std::max(unit, round_up(n / 2, unit));
}

}  // namespace gpk::ops::linalg
