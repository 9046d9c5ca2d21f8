#include "kernels/args/linalg.h"
#include "ops/cpu_backend.h"
#include "ops/creation/triangle.h"
#include "ops/elementwise/copy.h"
#include "ops/linalg/check.h"
#include "ops/linalg/leaves.h"
#include "ops/linalg/linalg.h"
#include "ops/linalg/stack.h"
#include "ops/linalg/triangular.h"

namespace gpk::ops {
namespace {

using namespace linalg;

constexpr std::int64_t kLeaf = kernels::kLinalgLeaf;

// The lower triangle of c -= a a^H. Blocks on the diagonal are computed whole.
void subtract_gram(const Array& c, const Array& a, const char* op) {
  constexpr std::int64_t kWhole = 512;
  const std::int64_t n = rows(c);
  if (n <= kWhole) {
    subtract_product(c, a, adjoint(a, op), op);
    return;
  }
  const std::int64_t half = split_at(n, kLeaf);
  const Array top = rows_from(a, 0, half);
  const Array bottom = rows_from(a, half, n - half);
  subtract_gram(block(c, 0, half, 0, half), top, op);
  subtract_product(block(c, half, n - half, 0, half), bottom, adjoint(top, op), op);
  subtract_gram(block(c, half, n - half, half, n - half), bottom, op);
}

// In place; what is above the diagonal is overwritten with anything.
void factor(const Array& a, const Array& status, std::int64_t first, const char* op) {
  const std::int64_t n = rows(a);
  if (n <= kLeaf) {
    cholesky_leaf(a, status, first, op);
    return;
  }
  const std::int64_t half = split_at(n, kLeaf);
  const Array corner = block(a, 0, half, 0, half);
  const Array below = block(a, half, n - half, 0, half);
  const Array rest = block(a, half, n - half, half, n - half);
  factor(corner, status, first, op);
  // L21 L11^H = A21, transposed: conj(L11) L21^T = A21^T.
  solve_lower(corner, transposed(below, op), false, true, op);
  subtract_gram(rest, below, op);
  factor(rest, status, first + half, op);
}

}  // namespace

Array cholesky(const Array& x, bool upper, const LinalgCall& call) {
  check_square(x, "x", call.op);
  const DType dtype = compute_dtype(x, "x", call.op);
  const Dims batch = batch_of(x);
  if (x.size() == 0) return Array::empty(x.shape(), dtype, x.device(), call.op);
  const Array status = new_status(batch, x.device(), call.op);
  const auto done = [&](const Array& result) {
    finish(status, {&result}, call, "is not positive definite");
    return result;
  };
  if (on_reference(x, call)) {
    const Array result = Array::empty(x.shape(), dtype, x.device(), call.op);
    run_on_cpu({"linalg_cholesky",
                {cast(x, dtype, call.op)},
                {result, status},
                {{"upper", Scalar(upper)}}});
    return done(result);
  }
  Array a = copy_stack(x, dtype, call.op);
  if (upper) a = copy_as(adjoint(a, call.op), dtype, call.op);
  factor(a, reshape(status, {a.shape()[0]}, call.op), 0, call.op);
  Array lower = tril(a, 0);
  if (upper) lower = contiguous(adjoint(lower, call.op), call.op);
  return done(unstack_to(lower, x.shape(), call.op));
}

}  // namespace gpk::ops
