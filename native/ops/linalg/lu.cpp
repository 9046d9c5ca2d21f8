#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "core/promote.h"
#include "core/view.h"
#include "kernels/args/linalg.h"
#include "ops/cpu_backend.h"
#include "ops/creation/ramp.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/elementwise.h"
#include "ops/linalg/leaves.h"
#include "ops/linalg/linalg.h"
#include "ops/linalg/plan.h"
#include "ops/linalg/stack.h"
#include "ops/linalg/systems.h"
#include "ops/linalg/triangular.h"
#include "ops/reduction/reduce.h"

namespace gpk::ops {
namespace {

using namespace linalg;

constexpr std::int64_t kPanel = kernels::kLinalgPanel;
constexpr const char* kSingular = "is singular";

Array pivots_from(const Array& pivots, std::int64_t first, std::int64_t count) {
  return slice_axis(pivots, 1, first, count, 1);
}

// One block's, in shared memory.
bool is_square_leaf(const Array& a) { return std::max(rows(a), cols(a)) <= kernels::kLinalgLeaf; }

// What all panels of a factorisation share.
struct LuWork {
  Array status;
  bool by_blocks;                 // panels of several blocks
  std::optional<Array> exchange;  // of the first that needs it, and all after it
  const char* op;
};

// Columns up to the number of rows, in place; pivots are first + row.
void factor(const Array& a, const Array& pivots, std::int64_t first, LuWork& work) {
  const std::int64_t m = rows(a);
  const std::int64_t n = cols(a);
  const char* const op = work.op;
  const PanelGrid grid =
      work.by_blocks && !is_square_leaf(a) ? panel_grid(PanelKind::kLu, a) : PanelGrid{};
  if (grid.blocks > 0 && n <= grid.cols) {
    if (has_exchange(grid) && !work.exchange) work.exchange = new_exchange(grid, a, op);
    lu_panel(a, pivots, work.status, work.exchange, first, grid, op);
    return;
  }
  if (grid.blocks == 0 && (n <= kPanel || is_square_leaf(a))) {
    lu_leaf(a, pivots, work.status, first, op);
    return;
  }
  // Wide panels are followed by GEMMs that are worth their launch.
  const std::int64_t width = grid.blocks > 0 ? grid.cols : kPanel;
  const std::int64_t half = split_at(n, width, grid.blocks > 0 ? 4 * width : 0);
  const Array right = cols_from(a, half, n - half);
  const Array left_pivots = pivots_from(pivots, 0, half);
  const Array right_pivots = pivots_from(pivots, half, n - half);
  const Array l21 = block(a, half, m - half, 0, half);
  const Array u12 = rows_from(right, 0, half);
  const Array rest = rows_from(right, half, m - half);
  factor(cols_from(a, 0, half), left_pivots, first, work);
  swap_rows(right, left_pivots, first, false, op);
  solve_lower(block(a, 0, half, 0, half), u12, true, false, op);
  subtract_product(rest, l21, u12, op);
  factor(rest, right_pivots, first + half, work);
  swap_rows(l21, right_pivots, first + half, false, op);
}

// Of any shape, in place: (pivots [batch, min(rows, cols)]).
Array factor_stack(const Array& a, const Array& status, const char* op) {
  const std::int64_t m = rows(a);
  const std::int64_t n = cols(a);
  const std::int64_t k = std::min(m, n);
  const Array pivots = Array::empty({a.shape()[0], k}, DType::kInt32, a.device(), op);
  if (a.size() == 0) return pivots;
  const Array left = cols_from(a, 0, k);
  const bool by_blocks = !is_square_leaf(left) && panel_grid(PanelKind::kLu, left).blocks > 0;
  LuWork work{status, by_blocks, std::nullopt, op};
  factor(left, pivots, 0, work);
  if (n > k) {
    const Array right = cols_from(a, k, n - k);
    swap_rows(right, pivots, 0, false, op);
    solve_lower(cols_from(a, 0, k), right, true, false, op);
  }
  return pivots;
}

void solve_stack(const Array& lu, const Array& pivots, const Array& b, Adjoint adjoint,
                 const char* op) {
  if (adjoint == Adjoint::kNone) {
    swap_rows(b, pivots, 0, false, op);
    solve_lower(lu, b, true, false, op);
    solve_upper(lu, b, false, false, op);
    return;
  }
  const bool conjugate = adjoint == Adjoint::kConjugate;
  const Array t = transposed(lu, op);
  solve_lower(t, b, false, conjugate, op);
  solve_upper(t, b, true, conjugate, op);
  swap_rows(b, pivots, 0, true, op);
}

Array flat(const Array& status, const char* op) { return reshape(status, {status.size()}, op); }

}  // namespace

LuResult lu_factor(const Array& x, const LinalgCall& call) {
  check_matrix(x, "x", call.op);
  const DType dtype = compute_dtype(x, "x", call.op);
  const Dims batch = batch_of(x);
  const Dims pivots_shape = joined(batch, {std::min(rows_of(x), cols_of(x))});
  const Array status = new_status(batch, x.device(), call.op);
  if (on_reference(x, call) || x.size() == 0) {
    const LuResult result{Array::empty(x.shape(), dtype, x.device(), call.op),
                          Array::empty(pivots_shape, DType::kInt32, x.device(), call.op)};
    if (x.size() > 0)
      run_on_cpu({"linalg_lu", {cast(x, dtype, call.op)}, {result.lu, result.pivots, status}});
    if (call.check) finish(status, {}, call, kSingular);
    return result;
  }
  const Array a = copy_stack(x, dtype, call.op);
  const Array pivots = factor_stack(a, flat(status, call.op), call.op);
  if (call.check) finish(status, {}, call, kSingular);
  return {unstack_to(a, x.shape(), call.op), reshape(pivots, pivots_shape, call.op)};
}

Array lu_solve(const Array& lu, const Array& pivots, const Array& b, Adjoint adjoint,
               const LinalgCall& call) {
  const SystemDesc desc = check_system(lu, b, call.op);
  const Dims expected = joined(batch_of(lu), {desc.n});
  if (!(pivots.shape() == expected) || pivots.dtype() != DType::kInt32)
    throw InvalidArgument(cat(call.op, ": pivots has shape ", to_string(pivots.shape()),
                              " and dtype ", name(pivots.dtype()), ", expected ",
                              to_string(expected), " and int32"));
  if (!(pivots.device() == lu.device()))
    throw InvalidArgument(cat(call.op, ": pivots is on ", to_string(pivots.device()), ", lu on ",
                              to_string(lu.device())));
  const Array result = empty_result(desc, lu.device(), call.op);
  if (result.size() == 0) return result;
  if (on_reference(lu, call)) {
    run_on_cpu({"linalg_lu_solve",
                {cast(lu, desc.dtype, call.op), pivots, cast(b, desc.dtype, call.op)},
                {result},
                {{"adjoint", Scalar(static_cast<std::int64_t>(adjoint))}}});
    return result;
  }
  const Array sides = right_hand_sides(b, desc, call.op);
  const Array factors = system_matrices(lu, desc, call.op);
  const Array all_pivots =
      reshape(contiguous(broadcast_to(pivots, joined(desc.batch, {desc.n}), call.op), call.op),
              {factors.shape()[0], desc.n}, call.op);
  solve_stack(factors, all_pivots, sides, adjoint, call.op);
  return as_result(sides, desc, call.op);
}

Array solve(const Array& x1, const Array& x2, const LinalgCall& call) {
  const SystemDesc desc = check_system(x1, x2, call.op);
  const Array result = empty_result(desc, x1.device(), call.op);
  if (desc.n == 0 || num_elements(desc.batch, call.op) == 0) return result;
  const Array status = new_status(desc.batch, x1.device(), call.op);
  const auto done = [&](const Array& solved) {
    finish(status, {&solved}, call, kSingular);
    return solved;
  };
  if (on_reference(x1, call)) {
    run_on_cpu({"linalg_solve",
                {cast(x1, desc.dtype, call.op), cast(x2, desc.dtype, call.op)},
                {result, status}});
    return done(result);
  }
  const Array sides = right_hand_sides(x2, desc, call.op);
  const Array a = system_matrices(x1, desc, call.op);
  const Array pivots = factor_stack(a, flat(status, call.op), call.op);
  solve_stack(a, pivots, sides, Adjoint::kNone, call.op);
  return done(as_result(sides, desc, call.op));
}

Array inv(const Array& x, const LinalgCall& call) {
  check_square(x, "x", call.op);
  const DType dtype = compute_dtype(x, "x", call.op);
  if (x.size() == 0) return Array::empty(x.shape(), dtype, x.device(), call.op);
  const Array status = new_status(batch_of(x), x.device(), call.op);
  const auto done = [&](const Array& result) {
    finish(status, {&result}, call, kSingular);
    return result;
  };
  if (on_reference(x, call)) {
    const Array result = Array::empty(x.shape(), dtype, x.device(), call.op);
    run_on_cpu({"linalg_inv", {cast(x, dtype, call.op)}, {result, status}});
    return done(result);
  }
  const Array a = copy_stack(x, dtype, call.op);
  const Array result = identity_stack(a.shape()[0], rows(a), rows(a), dtype, x.device(), call.op);
  const Array pivots = factor_stack(a, flat(status, call.op), call.op);
  solve_stack(a, pivots, result, Adjoint::kNone, call.op);
  return done(unstack_to(result, x.shape(), call.op));
}

SlogdetResult slogdet(const Array& x, const LinalgCall& call) {
  check_square(x, "x", call.op);
  const DType dtype = compute_dtype(x, "x", call.op);
  const Dims batch = batch_of(x);
  if (on_reference(x, call) || x.size() == 0) {
    const SlogdetResult result{Array::empty(batch, dtype, x.device(), call.op),
                               Array::empty(batch, real_part_of(dtype), x.device(), call.op)};
    if (x.size() > 0) {
      run_on_cpu({"linalg_slogdet", {cast(x, dtype, call.op)}, {result.sign, result.logabsdet}});
    } else if (result.sign.size() > 0) {  // of an empty matrix: 1
      copy_into(result.sign, reduce(OpId::prod, cast(x, dtype, call.op), along({-1, -2})), call.op);
      copy_into(result.logabsdet, log(abs(result.sign)), call.op);
    }
    return result;
  }
  const Array a = copy_stack(x, dtype, call.op);
  const Array status = new_status({a.shape()[0]}, x.device(), call.op);
  const Array pivots = factor_stack(a, status, call.op);
  const Array diagonal = core::diagonal(a, 0, 1, 2, call.op);
  const Array order =
      arange(rows(a), Scalar(std::int64_t{0}), Scalar(std::int64_t{1}), DType::kInt32, x.device());
  // Every swap of two different rows changes the sign.
  const Array swaps = cast(not_equal(pivots, order), real_part_of(dtype), call.op);
  const Array signs = subtract(Scalar(1.0), multiply(swaps, Scalar(2.0)));
  const ReduceOptions last = along({1});
  const Array sign =
      multiply(reduce(OpId::prod, ops::sign(diagonal), last), reduce(OpId::prod, signs, last));
  const Array logabs = reduce(OpId::sum, log(abs(diagonal)), last);
  return {reshape(sign, batch, call.op), reshape(logabs, batch, call.op)};
}

}  // namespace gpk::ops
