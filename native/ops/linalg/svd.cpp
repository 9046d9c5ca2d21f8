#include <algorithm>
#include <utility>

#include "core/promote.h"
#include "core/view.h"
#include "ops/cpu_backend.h"
#include "ops/creation/eye.h"
#include "ops/creation/triangle.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/fill.h"
#include "ops/indexing/take.h"
#include "ops/linalg/check.h"
#include "ops/linalg/jacobi.h"
#include "ops/linalg/leaves.h"
#include "ops/linalg/linalg.h"
#include "ops/linalg/qr.h"
#include "ops/linalg/stack.h"
#include "ops/reduction/reduce.h"
#include "ops/sorting/sort.h"

namespace gpk::ops {
namespace {

using namespace linalg;

// Sums of squares of columns: [batch, cols].
Array column_squares(const Array& a) {
  const Array size = abs(a);
  return reduce(OpId::sum, multiply(size, size), along({1}));
}

// Orthogonal columns u s, sorted, and v with a v = u s.
struct Orthogonal {
  Array columns;  // [batch, n, n]
  Array s;        // [batch, n], descending
  Array v;        // [batch, n, n]
};

// One-sided block Jacobi of square matrices: each pair of blocks is made orthogonal by the
// eigenvectors of its Gram matrix, whose relative thresholds keep small singular values accurate.
Orthogonal one_sided_jacobi(const Array& square, const Array& status, const char* op) {
  const std::int64_t batch = square.shape()[0];
  const std::int64_t n = rows(square);
  const JacobiPlan plan = plan_jacobi(n, square.dtype());
  const std::int64_t order = plan.order();
  Array x = full({batch, n, order}, Scalar(0.0), square.dtype(), square.device(), op);
  copy_into(cols_from(x, 0, n), square, op);
  Array v = identity_stack(batch, order, order, x.dtype(), x.device(), op);
  const Tournament tournament(plan, x.device());
  x = tournament.begin(x, 2);
  v = tournament.begin(v, 2);
  const Array pair_status = new_status({batch * plan.pairs}, x.device(), op);
  const double epsilon = epsilon_of(x.dtype());
  JacobiProgress progress;
  for (bool done = false; !done;) {
    std::optional<Array> off;
    for (std::int64_t round = 0; round < tournament.rounds(); ++round) {
      const Array pairs = reshape(contiguous(column_pairs(x, plan, op), op),
                                  {batch * plan.pairs, n, plan.pair_order}, op);
      const EighLeaf leaf =
          eigh_leaf(product(adjoint(pairs, op), pairs, op), pair_status, true, true, op);
      off = off ? maximum(*off, leaf.off) : leaf.off;
      x = tournament.next(rotate_columns(x, leaf.v, plan, op), 2, round);
      v = tournament.next(rotate_columns(v, leaf.v, plan, op), 2, round);
    }
    done = progress.converged(read_largest(*off, op), 8.0 * epsilon,
                              static_cast<double>(std::max<std::int64_t>(n, 64)) * epsilon);
    if (!done && progress.exhausted()) {
      fill(status, Scalar(std::int64_t{1}), op);
      break;
    }
  }
  // Columns of padding are zero, and so are their elements in the first n rows of v.
  const Array s = sqrt(column_squares(x));
  const Array top = rows_from(v, 0, n);
  const Array key = where(greater(column_squares(top), Scalar(0.5)), s, Scalar(-1.0));
  const Array places = slice_axis(argsort(key, 1, true), 1, 0, n, 1);
  const Array columns = expand_dims(places, {1}, op);
  return {take_along_axis(x, columns, 2), take_along_axis(s, places, 1),
          take_along_axis(top, columns, 2)};
}

// Orthonormal columns, also where s is 0: those of Q, with the signs of the diagonal of R.
Array normalized(const Orthogonal& found, const char* op) {
  const Array divisor = where(greater(found.s, Scalar(0.0)), found.s, Scalar(1.0));
  const Array u = divide(found.columns, expand_dims(divisor, {1}, op));
  const std::vector<WyPanel> panels = factor_qr(u, op);
  const Array diagonal = real(core::diagonal(u, 0, 1, 2, op));
  const Array one = full({}, Scalar(1.0), diagonal.dtype(), diagonal.device(), op);
  const Array signs = where(less(diagonal, Scalar(0.0)), negative(one), one);
  return multiply(form_q(panels, u, cols(u), op), expand_dims(signs, {1}, op));
}

struct Factors {
  std::optional<Array> u;
  Array s;
  std::optional<Array> vh;
};

// rows >= cols; `a` is overwritten.
Factors factor_tall(const Array& a, bool full_matrices, bool vectors, const Array& status,
                    const char* op) {
  const std::int64_t m = rows(a);
  const std::int64_t n = cols(a);
  const Array scale = power_of_two_scale(a, status, op);
  divide(a, scale, &a);
  std::vector<WyPanel> panels;
  if (m > n) panels = factor_qr(a, op);
  const Array square = m > n ? triu(rows_from(a, 0, n), 0) : a;
  const Orthogonal found = one_sided_jacobi(square, status, op);
  Factors result{std::nullopt, multiply(found.s, squeeze(scale, {2}, op)), std::nullopt};
  if (!vectors) return result;
  result.u = normalized(found, op);
  result.vh = adjoint(found.v, op);
  if (m > n) {
    const Array wide =
        identity_stack(a.shape()[0], m, full_matrices ? m : n, a.dtype(), a.device(), op);
    copy_into(block(wide, 0, n, 0, n), *result.u, op);
    apply_q(panels, wide, op);
    result.u = wide;
  }
  return result;
}

SvdResult empty_svd(const Array& x, DType dtype, bool full_matrices, bool vectors, const char* op) {
  const std::int64_t m = rows_of(x);
  const std::int64_t n = cols_of(x);
  const std::int64_t k = std::min(m, n);
  const Dims batch = batch_of(x);
  SvdResult result{std::nullopt,
                   Array::empty(joined(batch, {k}), real_part_of(dtype), x.device(), op),
                   std::nullopt};
  if (vectors) {
    result.u = Array::empty(joined(batch, {m, full_matrices ? m : k}), dtype, x.device(), op);
    result.vh = Array::empty(joined(batch, {full_matrices ? n : k, n}), dtype, x.device(), op);
  }
  return result;
}

}  // namespace

SvdResult svd(const Array& x, bool full_matrices, bool vectors, const LinalgCall& call) {
  const char* const op = call.op;
  check_matrix(x, "x", op);
  const DType dtype = compute_dtype(x, "x", op);
  const Array status = new_status(batch_of(x), x.device(), op);
  SvdResult result = empty_svd(x, dtype, full_matrices, vectors, op);
  const auto done = [&] {
    finish(status, {&result.s}, call, "has singular values that did not converge");
    if (vectors && !call.check) finish(status, {&*result.u, &*result.vh}, call, "");
    return result;
  };
  if (x.size() == 0) {
    for (const std::optional<Array>* part : {&result.u, &result.vh})
      if (*part && (*part)->size() > 0)
        copy_into(**part, eye(rows_of(**part), cols_of(**part), 0, dtype, x.device()), op);
    return result;
  }
  if (on_reference(x, call)) {
    CpuCall reference{"linalg_svd", {cast(x, dtype, op)}, {result.s, status}, {}};
    if (vectors) {
      reference.outs.push_back(*result.u);
      reference.outs.push_back(*result.vh);
    }
    reference.options.emplace_back("full_matrices", Scalar(full_matrices));
    run_on_cpu(std::move(reference));
    return done();
  }
  const bool wide = rows_of(x) < cols_of(x);
  Array a = copy_stack(x, dtype, op);
  if (wide) a = copy_as(adjoint(a, op), dtype, op);
  Factors found = factor_tall(a, full_matrices, vectors, reshape(status, {a.shape()[0]}, op), op);
  if (wide && vectors) {
    const Array u = adjoint(*found.vh, op);
    found.vh = adjoint(*found.u, op);
    found.u = u;
  }
  result.s = reshape(found.s, result.s.shape(), op);
  if (vectors) {
    result.u = reshape(contiguous(*found.u, op), result.u->shape(), op);
    result.vh = reshape(contiguous(*found.vh, op), result.vh->shape(), op);
  }
  return done();
}

}  // namespace gpk::ops
