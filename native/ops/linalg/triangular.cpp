#include "ops/linalg/triangular.h"

#include "base/error.h"
#include "base/text.h"
#include "core/view.h"
#include "ops/cpu_backend.h"
#include "ops/elementwise/copy.h"
#include "ops/linalg/leaves.h"
#include "ops/linalg/linalg.h"
#include "ops/linalg/plan.h"
#include "ops/linalg/stack.h"
#include "ops/linalg/systems.h"

namespace gpk::ops {
namespace linalg {
namespace {

// Where to split a system that is too large for a leaf.
std::int64_t split_at_leaf(const Array& b) {
  const std::int64_t leaf = triangular_order(b.dtype());
  return split_at(rows(b), leaf, 4 * leaf);
}

Array maybe_conjugated(const Array& t, bool conjugate, const char* op) {
  return conjugate ? conjugated(t, op) : t;
}

}  // namespace

void solve_lower(const Array& t, const Array& b, bool unit, bool conjugate, const char* op) {
  const std::int64_t n = rows(b);
  if (b.size() == 0) return;
  if (n <= triangular_order(b.dtype())) {
    triangular_leaf(t, b, unit, conjugate, op);
    return;
  }
  const std::int64_t half = split_at_leaf(b);
  const Array top = rows_from(b, 0, half);
  const Array bottom = rows_from(b, half, n - half);
  solve_lower(block(t, 0, half, 0, half), top, unit, conjugate, op);
  subtract_product(bottom, maybe_conjugated(block(t, half, n - half, 0, half), conjugate, op), top,
                   op);
  solve_lower(block(t, half, n - half, half, n - half), bottom, unit, conjugate, op);
}

void solve_upper(const Array& t, const Array& b, bool unit, bool conjugate, const char* op) {
  const std::int64_t n = rows(b);
  if (b.size() == 0) return;
  if (n <= triangular_order(b.dtype())) {  // lower triangular with both axes reversed
    triangular_leaf(reversed(reversed(t, 1), 2), reversed(b, 1), unit, conjugate, op);
    return;
  }
  const std::int64_t half = n - split_at_leaf(b);
  const Array top = rows_from(b, 0, half);
  const Array bottom = rows_from(b, half, n - half);
  solve_upper(block(t, half, n - half, half, n - half), bottom, unit, conjugate, op);
  subtract_product(top, maybe_conjugated(block(t, 0, half, half, n - half), conjugate, op), bottom,
                   op);
  solve_upper(block(t, 0, half, 0, half), top, unit, conjugate, op);
}

}  // namespace linalg

Array solve_triangular(const Array& x1, const Array& x2, bool upper, bool unit, Adjoint adjoint,
                       const LinalgCall& call) {
  using namespace linalg;
  const SystemDesc desc = check_system(x1, x2, call.op);
  if (desc.result_size() == 0) return empty_result(desc, x1.device(), call.op);
  if (on_reference(x1, call)) {
    const Array result = empty_result(desc, x1.device(), call.op);
    run_on_cpu({"linalg_triangular",
                {cast(x1, desc.dtype, call.op), cast(x2, desc.dtype, call.op)},
                {result},
                {{"upper", Scalar(upper)},
                 {"unit", Scalar(unit)},
                 {"adjoint", Scalar(static_cast<std::int64_t>(adjoint))}}});
    return result;
  }
  const Array b = right_hand_sides(x2, desc, call.op);
  Array t = system_matrices(x1, desc, call.op);
  if (adjoint != Adjoint::kNone) t = transposed(t, call.op);
  const bool conjugate = adjoint == Adjoint::kConjugate;
  if (upper != (adjoint != Adjoint::kNone)) {
    solve_upper(t, b, unit, conjugate, call.op);
  } else {
    solve_lower(t, b, unit, conjugate, call.op);
  }
  return as_result(b, desc, call.op);
}

}  // namespace gpk::ops
