#include "ops/linalg/qr.h"

#include <algorithm>
#include <optional>

#include "core/view.h"
#include "kernels/args/linalg.h"
#include "ops/cpu_backend.h"
#include "ops/creation/triangle.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/fill.h"
#include "ops/linalg/check.h"
#include "ops/linalg/leaves.h"
#include "ops/linalg/linalg.h"
#include "ops/linalg/stack.h"

namespace gpk::ops {
namespace linalg {
namespace {

constexpr std::int64_t kPanel = kernels::kLinalgPanel;

// c -= v op(t) (v^H c): the panel's Q (t) or Q^H (t^H) from the left.
void apply_panel(const WyPanel& panel, const Array& c, bool inverse, const char* op) {
  if (c.size() == 0) return;
  const Array inner = product(adjoint(panel.v, op), c, op);
  const Array t = inverse ? adjoint(panel.t, op) : panel.t;
  subtract_product(c, panel.v, product(t, inner, op), op);
}

// By one block, or on the CPU.
WyFactors factor_panel(const Array& a, const char* op) {
  const std::int64_t width = cols(a);
  const Array tau = Array::empty({a.shape()[0], width}, a.dtype(), a.device(), op);
  qr_leaf(a, tau, op);
  const Array v = tril(a, -1);
  fill(core::diagonal(v, 0, 1, 2, op), Scalar(1.0), op);
  const Array t = Array::empty({v.shape()[0], width, width}, v.dtype(), v.device(), op);
  wy_leaf(product(adjoint(v, op), v, op), tau, t, op);
  return {v, t};
}

WyFactors empty_factors(const Array& a, const char* op) {
  const auto zeros = [&](std::int64_t num_rows) {
    return full({a.shape()[0], num_rows, cols(a)}, Scalar(0.0), a.dtype(), a.device(), op);
  };
  return {zeros(rows(a)), zeros(cols(a))};
}

// What panels of several blocks share.
struct QrWork {
  Array exchange;
  std::int64_t leaf;  // columns of a panel
  const char* op;
};

// Columns of a matrix from the diagonal down. v and t are zeros at first.
void factor(const Array& a, const WyFactors& wy, std::int64_t first, const QrWork& work) {
  const std::int64_t m = rows(a);
  const std::int64_t n = cols(a);
  const char* const op = work.op;
  if (n <= work.leaf) {
    qr_panel(a, wy, work.exchange, first, panel_grid(PanelKind::kQr, a), op);
    return;
  }
  const std::int64_t half = split_at(n, work.leaf);
  const Array right = cols_from(a, half, n - half);
  const WyFactors one{cols_from(wy.v, 0, half), block(wy.t, 0, half, 0, half)};
  const WyFactors two{block(wy.v, half, m - half, half, n - half),
                      block(wy.t, half, n - half, half, n - half)};
  factor(cols_from(a, 0, half), one, first, work);
  apply_panel({one.v, one.t, 0}, right, true, op);
  factor(rows_from(right, half, m - half), two, first + half, work);
  // (I - V1 T1 V1^H) (I - V2 T2 V2^H): the corner of T is -T1 (V1^H V2) T2.
  const Array inner = product(adjoint(rows_from(one.v, half, m - half), op), two.v, op);
  subtract_product(block(wy.t, 0, half, half, n - half), product(one.t, inner, op), two.t, op);
}

// Columns that are applied to the rest at once.
constexpr std::int64_t kWide = 128;

}  // namespace

std::vector<WyPanel> factor_qr(const Array& a, const char* op) {
  const std::int64_t m = rows(a);
  const std::int64_t n = cols(a);
  const std::int64_t k = std::min(m, n);
  std::vector<WyPanel> panels;
  const PanelGrid grid = m > kernels::kLinalgLeaf && k > 0
                             ? panel_grid(PanelKind::kQr, cols_from(a, 0, std::min(k, kWide)))
                             : PanelGrid{};
  std::optional<QrWork> work;
  if (grid.blocks > 0) work = {new_exchange(grid, a, op), grid.cols, op};
  const std::int64_t step = work ? std::max<std::int64_t>(kWide, grid.cols) : kPanel;
  for (std::int64_t j = 0; j < k; j += step) {
    const std::int64_t width = std::min(step, k - j);
    const Array panel = block(a, j, m - j, j, width);
    const WyFactors wy = work ? empty_factors(panel, op) : factor_panel(panel, op);
    if (work) factor(panel, wy, j, *work);
    panels.push_back({wy.v, wy.t, j});
    apply_panel(panels.back(), block(a, j, m - j, j + width, n - j - width), true, op);
  }
  return panels;
}

void apply_q(const std::vector<WyPanel>& panels, const Array& c, const char* op) {
  for (auto panel = panels.rbegin(); panel != panels.rend(); ++panel)
    apply_panel(*panel, rows_from(c, panel->first, rows(c) - panel->first), false, op);
}

Array form_q(const std::vector<WyPanel>& panels, const Array& a, std::int64_t num_cols,
             const char* op) {
  const Array q = identity_stack(a.shape()[0], rows(a), num_cols, a.dtype(), a.device(), op);
  // Columns before a panel's first are still those of the identity.
  for (auto panel = panels.rbegin(); panel != panels.rend(); ++panel) {
    const std::int64_t first = panel->first;
    apply_panel(*panel, block(q, first, rows(q) - first, first, num_cols - first), false, op);
  }
  return q;
}

}  // namespace linalg

QrResult qr(const Array& x, QrMode mode, const LinalgCall& call) {
  using namespace linalg;
  check_matrix(x, "x", call.op);
  const DType dtype = compute_dtype(x, "x", call.op);
  const std::int64_t m = rows_of(x);
  const std::int64_t n = cols_of(x);
  const std::int64_t k = mode == QrMode::kComplete ? m : std::min(m, n);
  const Dims q_shape = joined(batch_of(x), {m, k});
  const Dims r_shape = joined(batch_of(x), {k, n});
  const bool with_q = mode != QrMode::kR;
  if (on_reference(x, call) || num_elements(batch_of(x), call.op) == 0) {
    QrResult result{std::nullopt, Array::empty(r_shape, dtype, x.device(), call.op)};
    if (with_q) result.q = Array::empty(q_shape, dtype, x.device(), call.op);
    CpuCall reference{"linalg_qr", {cast(x, dtype, call.op)}, {result.r}, {}};
    if (with_q) reference.outs.push_back(*result.q);
    reference.options.emplace_back("complete", Scalar(mode == QrMode::kComplete));
    if (!x.device().is_cuda()) run_on_cpu(std::move(reference));
    return result;
  }
  const Array a = copy_stack(x, dtype, call.op);
  const std::vector<WyPanel> panels = factor_qr(a, call.op);
  QrResult result{std::nullopt, reshape(triu(rows_from(a, 0, k), 0), r_shape, call.op)};
  if (with_q) result.q = reshape(form_q(panels, a, k, call.op), q_shape, call.op);
  return result;
}

}  // namespace gpk::ops
