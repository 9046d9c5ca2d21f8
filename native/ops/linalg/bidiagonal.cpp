#include "ops/linalg/bidiagonal.h"

#include <algorithm>

#include "base/ceil_div.h"
#include "base/text.h"
#include "core/context.h"
#include "core/promote.h"
#include "core/view.h"
#include "ops/cpu_backend.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/fill.h"
#include "ops/kernel_table.h"
#include "ops/linalg/leaves.h"
#include "ops/linalg/reflectors.h"
#include "ops/linalg/stack.h"
#include "ops/submit.h"

namespace gpk::ops::linalg {
namespace {

constexpr std::int64_t kOfSpace = kernels::kLinalgPanel;  // reflectors of a panel in each space

jit::KernelSpec bidiagonal_spec(DType dtype) {
  jit::KernelSpec spec;
  spec.file = "linalg/bidiagonal.cuh";
  spec.op = "bidiagonal_panel";
  spec.kernel = static_cast<std::uint8_t>(LinalgKernel::kBidiagonal);
  spec.variant = static_cast<std::uint64_t>(dtype);
  spec.expression = cat("gpk::bidiagonal_panel<", info(dtype).cuda_name, ">");
  return spec;
}

// Of the rows or of the columns of the matrices.
struct Space {
  Array a;           // [batch, n, pitch]: A, or its adjoint
  Array panel;       // [batch, n, 2 kOfSpace], of one panel after the other
  Array reflectors;  // [panels, batch, n, kOfSpace]
  Array tau;         // [panels, batch, kOfSpace]

  Space(const Array& of, const ReflectorBuffers& buffers, std::int64_t panels, const char* op)
      : a(buffers.padded(of, op)),
        panel(zeros_like(of, {of.shape()[0], rows(of), 2 * kOfSpace}, op)),
        reflectors(zeros_like(of, {panels, of.shape()[0], rows(of), kOfSpace}, op)),
        tau(zeros_like(of, {panels, of.shape()[0], kOfSpace}, op)) {}
  // Panel `index` of matrices `first` and after.
  Space(const Space& all, std::int64_t index, std::int64_t first, std::int64_t count,
        const char* op)
      : a(matrices_from(all.a, first, count)),
        panel(matrices_from(all.panel, first, count)),
        reflectors(matrices_from(entry(all.reflectors, index, op), first, count)),
        tau(matrices_from(entry(all.tau, index, op), first, count)) {}

  [[nodiscard]] kernels::BidiagonalSpace args() const {
    return {matrix_of(a), matrix_of(panel), matrix_of(reflectors), address(tau)};
  }
  void add_to(std::vector<const Array*>& arrays) const {
    for (const Array* array : {&a, &panel, &reflectors, &tau}) arrays.push_back(array);
  }
};

struct BidiagonalWork {
  ReflectorBuffers buffers;
  Space u, v;
  Array bands;  // [batch, 2, 2 n]

  [[nodiscard]] std::int64_t batch() const { return bands.shape()[0]; }
  [[nodiscard]] std::int64_t order() const { return rows(u.a); }
};

void launch_panel(const BidiagonalWork& work, std::int64_t panel, std::int64_t first,
                  std::int64_t count, const char* op) {
  const std::int64_t column = 2 * kOfSpace * panel;
  const Space u(work.u, panel, first, count, op);
  const Space v(work.v, panel, first, count, op);
  const Array bands = matrices_from(work.bands, first, count);
  kernels::BidiagonalArgs args{};
  args.u = u.args();
  args.v = v.args();
  args.exchange = work.buffers.args(first, column);
  args.bands = address(bands);
  args.tau_batch = u.tau.strides()[0];
  args.n = static_cast<int>(work.order());
  args.first = static_cast<int>(column);
  args.cols = static_cast<int>(std::min(2 * kOfSpace, 2 * work.order() - 1 - column));
  std::vector<const Array*> arrays{&bands};
  u.add_to(arrays);
  v.add_to(arrays);
  work.buffers.add_to(arrays);
  const DType dtype = u.a.dtype();
  const Kernel& code = kernel(Context::get(bands.device().index),
                              {Family::linalg, static_cast<std::uint8_t>(LinalgKernel::kBidiagonal),
                               static_cast<std::uint64_t>(dtype)},
                              [&] { return bidiagonal_spec(dtype); });
  void* params[] = {&args};
  submit(code, work.buffers.config(count), arrays, params);
}

void run_panel(const BidiagonalWork& work, std::int64_t panel, const char* op) {
  if (!work.bands.device().is_cuda()) {
    const Space u(work.u, panel, 0, work.batch(), op);
    const Space v(work.v, panel, 0, work.batch(), op);
    run_on_cpu({"linalg_leaf_bidiagonal",
                {cols_from(u.a, 0, work.order()), cols_from(v.a, 0, work.order())},
                {work.bands, u.panel, v.panel, u.reflectors, v.reflectors, u.tau, v.tau},
                {{"first", Scalar(2 * kOfSpace * panel)}}});
    return;
  }
  const std::int64_t count = work.buffers.plan().matrices;
  for (std::int64_t first = 0; first < work.batch(); first += count)
    launch_panel(work, panel, first, std::min(count, work.batch() - first), op);
}

// What the panel leaves of A and of its adjoint.
void update_rest(const BidiagonalWork& work, std::int64_t first, const char* op) {
  const std::int64_t count = work.order() - first;
  if (count <= 0) return;
  const Array u = rows_from(work.u.panel, first, count);
  const Array v = rows_from(work.v.panel, first, count);
  subtract_product(block(work.u.a, first, count, first, count), u, adjoint(v, op), op);
  subtract_product(block(work.v.a, first, count, first, count), v, adjoint(u, op), op);
}

}  // namespace

Bidiagonal bidiagonal(const Array& a, bool vectors, const char* op) {
  const std::int64_t n = rows(a);
  const std::int64_t panels = ceil_div(n, kOfSpace);
  const ReflectorBuffers buffers(a, op);
  const BidiagonalWork work{
      buffers, Space(a, buffers, panels, op), Space(adjoint(a, op), buffers, panels, op),
      full({a.shape()[0], 2, 2 * n}, Scalar(0.0), real_part_of(a.dtype()), a.device(), op)};
  for (std::int64_t panel = 0; panel < panels; ++panel) {
    run_panel(work, panel, op);
    update_rest(work, (panel + 1) * kOfSpace, op);
  }
  Bidiagonal result{work.bands, {}, {}};
  if (vectors) {
    result.u = compact(work.u.reflectors, work.u.tau, 0, op);
    result.v = compact(work.v.reflectors, work.v.tau, 1, op);
  }
  return result;
}

void enumerate_bidiagonal(std::vector<jit::KernelSpec>& specs) {
  for (const DType dtype : kDTypes) specs.push_back(bidiagonal_spec(dtype));
}

}  // namespace gpk::ops::linalg
