#include "ops/linalg/tridiagonal.h"

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

constexpr std::int64_t kColumns = kernels::kLinalgPanel;

jit::KernelSpec tridiagonal_spec(DType dtype) {
  jit::KernelSpec spec;
  spec.file = "linalg/tridiagonal.cuh";
  spec.op = "tridiagonal_panel";
  spec.kernel = static_cast<std::uint8_t>(LinalgKernel::kTridiagonal);
  spec.variant = static_cast<std::uint64_t>(dtype);
  spec.expression = cat("gpk::tridiagonal_panel<", info(dtype).cuda_name, ">");
  return spec;
}

// Arrays of all panels of a stack.
struct TridiagonalWork {
  ReflectorBuffers buffers;
  Array a;      // [batch, n, pitch]
  Array bands;  // [batch, 2, n]
  Array vw;     // [panels, batch, n, 2 kColumns]
  Array wv;     // [batch, n, 2 kColumns], of one panel after the other
  Array tau;    // [panels, batch, kColumns]

  [[nodiscard]] std::int64_t batch() const { return a.shape()[0]; }
  [[nodiscard]] std::int64_t order() const { return a.shape()[1]; }
};

void launch_panel(const TridiagonalWork& work, std::int64_t panel, std::int64_t first,
                  std::int64_t count, const char* op) {
  const std::int64_t column = panel * kColumns;
  const auto part = [&](const Array& all) { return matrices_from(all, first, count); };
  const Array a = part(work.a);
  const Array bands = part(work.bands);
  const Array tau = part(entry(work.tau, panel, op));
  const Array vw = part(entry(work.vw, panel, op));
  const Array wv = part(work.wv);
  kernels::TridiagonalArgs args{};
  args.a = matrix_of(a);
  args.vw = matrix_of(vw);
  args.wv = matrix_of(wv);
  args.exchange = work.buffers.args(first, column);
  args.bands = address(bands);
  args.tau = address(tau);
  args.tau_batch = tau.strides()[0];
  args.n = static_cast<int>(work.order());
  args.first = static_cast<int>(column);
  args.cols = static_cast<int>(std::min(kColumns, work.order() - 1 - column));
  std::vector<const Array*> arrays{&a, &bands, &tau, &vw, &wv};
  work.buffers.add_to(arrays);
  const Kernel& code =
      kernel(Context::get(a.device().index),
             {Family::linalg, static_cast<std::uint8_t>(LinalgKernel::kTridiagonal),
              static_cast<std::uint64_t>(a.dtype())},
             [&] { return tridiagonal_spec(a.dtype()); });
  void* params[] = {&args};
  submit(code, work.buffers.config(count), arrays, params);
}

void run_panel(const TridiagonalWork& work, std::int64_t panel, const char* op) {
  if (!work.a.device().is_cuda()) {
    run_on_cpu({"linalg_leaf_tridiagonal",
                {cols_from(work.a, 0, work.order())},
                {work.bands, entry(work.tau, panel, op), entry(work.vw, panel, op), work.wv},
                {{"first", Scalar(panel * kColumns)}}});
    return;
  }
  const std::int64_t count = work.buffers.plan().matrices;
  for (std::int64_t first = 0; first < work.batch(); first += count)
    launch_panel(work, panel, first, std::min(count, work.batch() - first), op);
}

}  // namespace

Tridiagonal tridiagonal(const Array& h, bool vectors, const char* op) {
  const std::int64_t batch = h.shape()[0];
  const std::int64_t n = rows(h);
  const std::int64_t panels = ceil_div(n - 1, kColumns);
  const ReflectorBuffers buffers(h, op);
  const TridiagonalWork work{
      buffers,
      buffers.padded(h, op),
      full({batch, 2, n}, Scalar(0.0), real_part_of(h.dtype()), h.device(), op),
      zeros_like(h, {panels, batch, n, 2 * kColumns}, op),
      zeros_like(h, {batch, n, 2 * kColumns}, op),
      zeros_like(h, {panels, batch, kColumns}, op)};
  for (std::int64_t panel = 0; panel < panels; ++panel) {
    run_panel(work, panel, op);
    const std::int64_t rest = std::min((panel + 1) * kColumns, n - 1);
    subtract_product(block(work.a, rest, n - rest, rest, n - rest),
                     rows_from(entry(work.vw, panel, op), rest, n - rest),
                     adjoint(rows_from(work.wv, rest, n - rest), op), op);
  }
  const Array corner = block(work.a, n - 1, 1, n - 1, 1);
  copy_into(block(work.bands, 0, 1, n - 1, 1),
            is_complex(corner.dtype()) ? complex_part(corner, false) : corner, op);
  Tridiagonal result{work.bands, {}};
  if (vectors) result.q = compact(slice_axis(work.vw, 3, 0, kColumns, 1), work.tau, 1, op);
  return result;
}

void enumerate_tridiagonal(std::vector<jit::KernelSpec>& specs) {
  for (const DType dtype : kDTypes) specs.push_back(tridiagonal_spec(dtype));
}

}  // namespace gpk::ops::linalg
