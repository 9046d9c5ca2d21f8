#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "core/promote.h"
#include "core/view.h"
#include "ops/cpu_backend.h"
#include "ops/creation/triangle.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/fill.h"
#include "ops/indexing/take.h"
#include "ops/linalg/check.h"
#include "ops/linalg/jacobi.h"
#include "ops/linalg/leaves.h"
#include "ops/linalg/linalg.h"
#include "ops/linalg/stack.h"
#include "ops/reduction/reduce.h"
#include "ops/sorting/sort.h"

namespace gpk::ops {
namespace {

using namespace linalg;

// Both triangles, from one of them; the diagonal is real.
Array hermitian(const Array& a, bool upper, const char* op) {
  const Array half = upper ? triu(a, 0) : tril(a, 0);
  const Array strict = upper ? triu(a, 1) : tril(a, -1);
  const Array h = add(half, adjoint(strict, op));
  if (is_complex(h.dtype()))
    fill(complex_part(core::diagonal(h, 0, 1, 2, op), true), Scalar(0.0), op);
  return h;
}

struct Spectrum {
  Array w;                 // [batch, n]
  std::optional<Array> v;  // [batch, n, n]
};

// The blocks on the diagonal, one matrix for each pair.
Array diagonal_pairs(const Array& a, const JacobiPlan& plan, const char* op) {
  const std::int64_t batch = a.shape()[0];
  const Dims shape{batch, plan.pairs, plan.pair_order, plan.pairs, plan.pair_order};
  const Array blocks = core::diagonal(*try_reshape(a, shape), 0, 1, 3, op);  // pairs last
  return reshape(contiguous(permute(blocks, {0, 3, 1, 2}, op), op),
                 {batch * plan.pairs, plan.pair_order, plan.pair_order}, op);
}

// V^H a V with V = diag(v): rows of a pair are contiguous.
Array rotate_both(const Array& a, const Array& v, const JacobiPlan& plan, const char* op) {
  const Array right = rotate_columns(a, v, plan, op);
  const Array result = Array::empty(a.shape(), a.dtype(), a.device(), op);
  const std::int64_t batch = a.shape()[0];
  const Dims shape{batch * plan.pairs, plan.pair_order, plan.order()};
  product_into(reshape(result, shape, op), adjoint(v, op), reshape(right, shape, op), op);
  return result;
}

// The largest magnitude on the diagonal, but for padding.
double read_norm(const Array& a, double padding, const char* op) {
  const Array diagonal = abs(core::diagonal(a, 0, 1, 2, op));
  return read_largest(where(less(diagonal, Scalar(padding / 2)), diagonal, Scalar(0.0)), op);
}

// Two-sided block Jacobi. h is scaled to a largest element of about 1.
Spectrum block_jacobi(const Array& h, const Array& status, bool vectors, const char* op) {
  const std::int64_t batch = h.shape()[0];
  const std::int64_t n = rows(h);
  const JacobiPlan plan = plan_jacobi(n, h.dtype());
  const std::int64_t order = plan.order();
  const double padding = 8.0 * static_cast<double>(n);  // above every eigenvalue, never rotated
  Array a = full({batch, order, order}, Scalar(0.0), h.dtype(), h.device(), op);
  fill(core::diagonal(a, 0, 1, 2, op), Scalar(padding), op);
  copy_into(block(a, 0, n, 0, n), h, op);
  std::optional<Array> v;
  if (vectors) v = identity_stack(batch, order, order, h.dtype(), h.device(), op);
  const Tournament tournament(plan, h.device());
  a = tournament.begin(tournament.begin(a, 1), 2);
  if (v) v = tournament.begin(*v, 2);
  const Array pair_status = new_status({batch * plan.pairs}, h.device(), op);
  const double epsilon = epsilon_of(h.dtype());
  JacobiProgress progress;
  for (bool done = false; !done;) {
    std::optional<Array> off;
    for (std::int64_t round = 0; round < tournament.rounds(); ++round) {
      const EighLeaf leaf = eigh_leaf(diagonal_pairs(a, plan, op), pair_status, false, false, op);
      off = off ? maximum(*off, leaf.off) : leaf.off;
      a = rotate_both(a, leaf.v, plan, op);
      a = tournament.next(tournament.next(a, 1, round), 2, round);
      if (v) v = tournament.next(rotate_columns(*v, leaf.v, plan, op), 2, round);
    }
    const double norm = read_norm(a, padding, op);
    done = progress.converged(read_largest(*off, op), 8.0 * epsilon * norm,
                              static_cast<double>(n) * epsilon * norm);
    if (!done && progress.exhausted()) {
      fill(status, Scalar(std::int64_t{1}), op);
      break;
    }
  }
  Array w = core::diagonal(a, 0, 1, 2, op);
  if (is_complex(w.dtype())) w = complex_part(w, false);
  const Array places = slice_axis(argsort(w, 1), 1, 0, n, 1);
  Spectrum result{take_along_axis(w, places, 1), std::nullopt};
  if (v) result.v = take_along_axis(rows_from(*v, 0, n), expand_dims(places, {1}, op), 2);
  return result;
}

Spectrum spectrum_of(const Array& h, const Array& status, bool vectors, const char* op) {
  if (rows(h) > eigh_leaf_order(h.dtype())) return block_jacobi(h, status, vectors, op);
  const EighLeaf leaf = eigh_leaf(h, status, false, false, op);
  return {leaf.w, vectors ? std::optional(leaf.v) : std::nullopt};
}

}  // namespace

EighResult eigh(const Array& x, bool upper, bool vectors, const LinalgCall& call) {
  const char* const op = call.op;
  check_square(x, "x", op);
  const DType dtype = compute_dtype(x, "x", op);
  const Dims w_shape = joined(batch_of(x), {rows_of(x)});
  const Array status = new_status(batch_of(x), x.device(), op);
  const auto done = [&](EighResult result) {
    finish(status, {&result.w}, call, "has eigenvalues that did not converge");
    if (result.v && !call.check) finish(status, {&*result.v}, call, "");
    return result;
  };
  if (on_reference(x, call) || x.size() == 0) {
    EighResult result{Array::empty(w_shape, real_part_of(dtype), x.device(), op), std::nullopt};
    if (vectors) result.v = Array::empty(x.shape(), dtype, x.device(), op);
    CpuCall reference{"linalg_eigh", {cast(x, dtype, op)}, {result.w, status}, {}};
    if (vectors) reference.outs.push_back(*result.v);
    reference.options.emplace_back("upper", Scalar(upper));
    if (x.size() > 0) run_on_cpu(std::move(reference));
    return done(std::move(result));
  }
  const Array h = hermitian(copy_stack(x, dtype, op), upper, op);
  const Array flat = reshape(status, {h.shape()[0]}, op);
  const Array scale = power_of_two_scale(h, flat, op);
  divide(h, scale, &h);
  const Spectrum spectrum = spectrum_of(h, flat, vectors, op);
  multiply(spectrum.w, squeeze(scale, {2}, op), &spectrum.w);
  EighResult result{reshape(spectrum.w, w_shape, op), std::nullopt};
  if (vectors) result.v = reshape(*spectrum.v, x.shape(), op);
  return done(std::move(result));
}

EigResult eig(const Array& x, bool vectors, const LinalgCall& call) {
  const char* const op = call.op;
  check_square(x, "x", op);
  const DType dtype = compute_dtype(x, "x", op);
  if (x.device().is_cuda())
    throw Error(cat(op, ": no GPU algorithm for general matrices; x is on ", to_string(x.device()),
                    ", expected the CPU"));
  const DType wide =
      real_part_of(dtype) == DType::kFloat32 ? DType::kComplex64 : DType::kComplex128;
  EigResult result{Array::empty(joined(batch_of(x), {rows_of(x)}), wide, x.device(), op),
                   std::nullopt};
  if (vectors) result.v = Array::empty(x.shape(), wide, x.device(), op);
  const Array status = new_status(batch_of(x), x.device(), op);
  CpuCall reference{"linalg_eig", {cast(x, dtype, op)}, {result.w, status}, {}};
  if (vectors) reference.outs.push_back(*result.v);
  if (x.size() > 0) run_on_cpu(std::move(reference));
  finish(status, {&result.w}, call, "has eigenvalues that did not converge");
  return result;
}

}  // namespace gpk::ops
