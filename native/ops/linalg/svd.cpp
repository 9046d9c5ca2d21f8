#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "core/promote.h"
#include "core/view.h"
#include "device/host_copy.h"
#include "ops/cpu_backend.h"
#include "ops/creation/eye.h"
#include "ops/creation/triangle.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/fill.h"
#include "ops/indexing/take.h"
#include "ops/linalg/bidiagonal.h"
#include "ops/linalg/check.h"
#include "ops/linalg/divide.h"
#include "ops/linalg/leaves.h"
#include "ops/linalg/linalg.h"
#include "ops/linalg/plan.h"
#include "ops/linalg/qr.h"
#include "ops/linalg/spectrum.h"
#include "ops/linalg/stack.h"
#include "ops/reduction/reduce.h"
#include "ops/sorting/sort.h"

namespace gpk::ops {
namespace {

using namespace linalg;

double epsilon_of(DType dtype) {
  return real_part_of(dtype) == DType::kFloat32 ? std::numeric_limits<float>::epsilon()
                                                : std::numeric_limits<double>::epsilon();
}

// The largest element, in double. Waits.
double read_largest(const Array& values, const char* op) {
  const Array largest = cast(reduce(OpId::max, values), DType::kFloat64, op);
  double value = 0.0;
  device::to_host(largest, &value);
  return value;
}

// Of columns, [batch, cols].
Array column_norms(const Array& a) {
  const Array size = abs(a);
  return sqrt(reduce(OpId::sum, multiply(size, size), along({1})));
}

// In place of the columns of Q, those that are nearest to the given ones: with the signs of the
// diagonal of R. Columns are orthonormal also where they were 0.
Array orthonormal(const Array& a, const char* op) {
  const std::vector<WyPanel> panels = factor_qr(a, op);
  const Array diagonal = real(core::diagonal(a, 0, 1, 2, op));
  const Array one = full({}, Scalar(1.0), diagonal.dtype(), diagonal.device(), op);
  const Array signs = where(less(diagonal, Scalar(0.0)), negative(one), one);
  return multiply(form_q(panels, a, cols(a), op), expand_dims(signs, {1}, op));
}

// Of square matrices.
struct SquareSvd {
  std::optional<Array> u;
  Array s;  // [batch, n], descending
  std::optional<Array> v;
};

// When one-sided Jacobi may end, by the largest cosine between columns that each sweep began with:
// below what rounding errors amount to, or no progress near there.
class JacobiProgress {
 public:
  explicit JacobiProgress(DType dtype) : epsilon_(epsilon_of(dtype)) {}
  bool converged(double off) {
    ++sweeps_;
    const bool stuck = sweeps_ > 2 && off > last_ / 2 && off <= kLargest * epsilon_;
    last_ = off;
    return off <= kRounding * epsilon_ || stuck;
  }
  [[nodiscard]] bool exhausted() const noexcept { return sweeps_ >= kMaxSweeps; }

 private:
  static constexpr int kMaxSweeps = 30;
  static constexpr double kRounding = 8.0;
  static constexpr double kLargest = 64.0;
  double epsilon_;
  int sweeps_ = 0;
  double last_ = 0.0;
};

// One-sided Jacobi, for matrices that one block diagonalises: columns are made orthogonal by the
// eigenvectors of their Gram matrix, whose relative thresholds keep small singular values accurate.
SquareSvd svd_by_jacobi(const Array& square, bool vectors, const Array& status, const char* op) {
  const std::int64_t n = rows(square);
  Array x = square;
  Array v = identity_stack(x.shape()[0], n, n, x.dtype(), x.device(), op);
  const Array leaf_status = new_status({x.shape()[0]}, x.device(), op);
  JacobiProgress progress(x.dtype());
  for (bool done = false; !done;) {
    const EighLeaf leaf = eigh_leaf(product(adjoint(x, op), x, op), leaf_status, true, true, op);
    x = product(x, leaf.v, op);
    v = product(v, leaf.v, op);
    done = progress.converged(read_largest(leaf.off, op));
    if (!done && progress.exhausted()) {
      fill(status, Scalar(std::int64_t{1}), op);
      break;
    }
  }
  const Array norms = column_norms(x);
  const Array places = argsort(norms, 1, true);
  const Array s = take_along_axis(norms, places, 1);
  if (!vectors) return {std::nullopt, s, std::nullopt};
  const Array columns = expand_dims(places, {1}, op);
  const Array divisor = where(greater(s, Scalar(0.0)), s, Scalar(1.0));
  const Array u = divide(take_along_axis(x, columns, 2), expand_dims(divisor, {1}, op));
  return {orthonormal(u, op), s, take_along_axis(v, columns, 2)};
}

// A = Q_u B Q_v^H, and B from the spectrum of [0, B^T; B, 0]: s and -s, with eigenvectors (v; u)
// and (v; -u), their elements by turns. Near 0 the two mix, and what is not orthogonal then is made
// so, from the largest s on: that changes B v - u s by no more than the spectrum's own error.
SquareSvd svd_by_division(const Array& square, bool vectors, const Array& status, const char* op) {
  const std::int64_t batch = square.shape()[0];
  const std::int64_t n = rows(square);
  const Bidiagonal reduced = bidiagonal(square, vectors, op);
  const TridiagonalSpectrum found = divide_and_conquer(reduced.bands, status, op);
  const Array s = maximum(reversed(slice_axis(found.w, 1, n, n, 1), 1), Scalar(0.0));
  if (!vectors) return {std::nullopt, s, std::nullopt};
  const Array turns =
      reshape(contiguous(reversed(cols_from(found.v, n, n), 2), op), {batch, n, 2, n}, op);  // v, u
  const Array both = contiguous(permute(turns, {0, 2, 1, 3}, op), op);
  const Array q =
      reshape(orthonormal(reshape(both, {2 * batch, n, n}, op), op), {batch, 2, n, n}, op);
  const auto side = [&](std::int64_t which, const std::vector<WyPanel>& panels) {
    const Array part = squeeze(slice_axis(q, 1, which, 1, 1), {1}, op);
    const Array result = copy_as(part, square.dtype(), op);
    apply_q(panels, result, op);
    return result;
  };
  return {side(1, reduced.u), s, side(0, reduced.v)};
}

SquareSvd svd_of_square(const Array& square, bool vectors, const Array& status, const char* op) {
  const std::int64_t batch = square.shape()[0];
  const std::int64_t n = rows(square);
  const std::int64_t count = matrices_at_a_time(2 * n, square.dtype());
  if (n <= eigh_leaf_order(square.dtype())) return svd_by_jacobi(square, vectors, status, op);
  if (batch <= count) return svd_by_division(square, vectors, status, op);
  const DType real = real_part_of(square.dtype());
  SquareSvd result{std::nullopt, Array::empty({batch, n}, real, square.device(), op), std::nullopt};
  if (vectors)
    for (std::optional<Array>* side : {&result.u, &result.v})
      *side = Array::empty(square.shape(), square.dtype(), square.device(), op);
  for (std::int64_t first = 0; first < batch; first += count) {
    const auto part = [&](const Array& all) {
      return slice_axis(all, 0, first, std::min(count, batch - first), 1);
    };
    const SquareSvd found = svd_by_division(part(square), vectors, part(status), op);
    copy_into(part(result.s), found.s, op);
    if (!vectors) continue;
    copy_into(part(*result.u), *found.u, op);
    copy_into(part(*result.v), *found.v, op);
  }
  return result;
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
  const Array scale = scale_in_place(a, status, op);
  std::vector<WyPanel> panels;
  if (m > n) panels = factor_qr(a, op);
  const Array square = m > n ? triu(rows_from(a, 0, n), 0) : a;
  const SquareSvd found = svd_of_square(square, vectors, status, op);
  Factors result{found.u, multiply(found.s, squeeze(scale, {2}, op)), std::nullopt};
  if (!vectors) return result;
  result.vh = adjoint(*found.v, op);
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
