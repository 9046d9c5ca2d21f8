#include <algorithm>

#include "core/view.h"
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
constexpr std::int64_t kLoop = 512;   // columns that are factored leaf by leaf
constexpr std::int64_t kWhole = 512;  // order of blocks of a triangle that are computed whole

// `count` blocks of one matrix, each `row` rows and `col` columns after the one before.
Array blocks_of(const Array& first, std::int64_t count, std::int64_t row, std::int64_t col) {
  const Dims& strides = first.strides();
  return {Dims{count, rows(first), cols(first)},
          Dims{row * strides[1] + col * strides[2], strides[1], strides[2]}, first.dtype(),
          first.buffer(), first.offset_elems()};
}

// The lower triangle of c -= a ah, of one matrix. Blocks on the diagonal are computed whole; those
// of one size are one GEMM.
void subtract_triangle(const Array& c, const Array& a, const Array& ah, const char* op) {
  const std::int64_t n = rows(c);
  // Blocks of c from (row, col) on, every `step` along the diagonal.
  const auto subtract_blocks = [&](std::int64_t row, std::int64_t col, std::int64_t num_rows,
                                   std::int64_t num_cols, std::int64_t count, std::int64_t step) {
    if (count <= 0 || num_rows <= 0) return;
    subtract_product(blocks_of(block(c, row, num_rows, col, num_cols), count, step, step),
                     blocks_of(rows_from(a, row, num_rows), count, step, 0),
                     blocks_of(cols_from(ah, col, num_cols), count, 0, step), op);
  };
  const std::int64_t whole = n / kWhole;
  const std::int64_t rest = n - whole * kWhole;
  subtract_blocks(0, 0, kWhole, kWhole, whole, kWhole);
  subtract_blocks(n - rest, n - rest, rest, rest, 1, 0);
  for (std::int64_t half = kWhole; half < n; half *= 2) {
    const std::int64_t pairs = n / (2 * half);
    const std::int64_t last = pairs * 2 * half;
    subtract_blocks(half, 0, half, half, pairs, 2 * half);
    subtract_blocks(last + half, last, n - last - half, half, 1, 0);
  }
}

// c -= a (top rows of a)^H for as many rows as c has columns, on and below the diagonal of c; some
// elements above it, too.
void subtract_gram(const Array& c, const Array& a, const char* op) {
  const std::int64_t m = rows(c);
  const std::int64_t n = cols(c);
  const Array ah = adjoint(rows_from(a, 0, n), op);
  if (n > kWhole && a.shape()[0] == 1) {
    subtract_triangle(rows_from(c, 0, n), rows_from(a, 0, n), ah, op);
    subtract_product(rows_from(c, n, m - n), rows_from(a, n, m - n), ah, op);
    return;
  }
  for (std::int64_t j = 0; j < n; j += kWhole) {
    const std::int64_t width = std::min(kWhole, n - j);
    subtract_product(block(c, j, m - j, j, width), rows_from(a, j, m - j), cols_from(ah, j, width),
                     op);
  }
}

// The first columns of a matrix, from the diagonal down, in place; what is above the diagonal is
// overwritten with anything.
void factor(const Array& a, const Array& status, std::int64_t first, const char* op) {
  const std::int64_t m = rows(a);
  const std::int64_t n = cols(a);
  if (n <= kLeaf) {
    const Array corner = rows_from(a, 0, n);
    cholesky_leaf(corner, status, first, op);
    // L21 L11^H = A21, transposed: conj(L11) L21^T = A21^T.
    solve_lower(corner, transposed(rows_from(a, n, m - n), op), false, true, op);
    return;
  }
  const std::int64_t half = split_at(n, kLeaf, kLoop);
  const Array left = cols_from(a, 0, half);
  const Array right = block(a, half, m - half, half, n - half);
  factor(left, status, first, op);
  subtract_gram(right, rows_from(left, half, m - half), op);
  factor(right, status, first + half, op);
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
