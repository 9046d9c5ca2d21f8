#include "ops/linalg/qr.h"

#include <algorithm>

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

// The reflectors of a factored panel.
WyPanel make_panel(const Array& factored, const Array& tau, std::int64_t first, const char* op) {
  const std::int64_t width = cols(factored);
  const Array v = tril(factored, -1);
  fill(core::diagonal(v, 0, 1, 2, op), Scalar(1.0), op);
  const Array t = Array::empty({v.shape()[0], width, width}, v.dtype(), v.device(), op);
  wy_leaf(product(adjoint(v, op), v, op), tau, t, op);
  return {v, t, first};
}

}  // namespace

std::vector<WyPanel> factor_qr(const Array& a, const char* op) {
  const std::int64_t m = rows(a);
  const std::int64_t n = cols(a);
  std::vector<WyPanel> panels;
  for (std::int64_t j = 0; j < std::min(m, n); j += kPanel) {
    const std::int64_t width = std::min({kPanel, m - j, n - j});
    const Array panel = block(a, j, m - j, j, width);
    const Array tau = Array::empty({a.shape()[0], width}, a.dtype(), a.device(), op);
    qr_leaf(panel, tau, op);
    panels.push_back(make_panel(panel, tau, j, op));
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
