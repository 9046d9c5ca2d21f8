#include "ops/linalg/leaves.h"

#include <algorithm>
#include <limits>

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/text.h"
#include "core/context.h"
#include "core/promote.h"
#include "kernels/args/linalg.h"
#include "ops/cpu_backend.h"
#include "ops/device_address.h"
#include "ops/elementwise/fill.h"
#include "ops/kernel_table.h"
#include "ops/linalg/plan.h"
#include "ops/linalg/stack.h"
#include "ops/submit.h"
#include "plan/key_builder.h"

namespace gpk::ops::linalg {
namespace {

using kernels::kLinalgThreads;

// --- kernels ------------------------------------------------------------------------------------

struct LeafSource {
  LinalgKernel kernel;
  const char* file;
  const char* name;
  bool panel;  // has a variant in shared memory and one in place
};
constexpr LeafSource kSources[] = {
    {LinalgKernel::kCholesky, "linalg/cholesky.cuh", "cholesky_leaf", false},
    {LinalgKernel::kTriangular, "linalg/triangular.cuh", "triangular_leaf", false},
    {LinalgKernel::kLu, "linalg/lu.cuh", "lu_leaf", true},
    {LinalgKernel::kSwapRows, "linalg/swap_rows.cuh", "swap_rows", false},
    {LinalgKernel::kQr, "linalg/qr.cuh", "qr_leaf", true},
    {LinalgKernel::kWy, "linalg/qr.cuh", "wy_leaf", false},
    {LinalgKernel::kEigh, "linalg/eigh.cuh", "eigh_leaf", false},
    {LinalgKernel::kLuPanel, "linalg/lu_panel.cuh", "lu_panel", false},
    {LinalgKernel::kQrPanel, "linalg/qr_panel.cuh", "qr_panel", false},
    {LinalgKernel::kProduct, "linalg/product.cuh", "matrix_product", false},
    {LinalgKernel::kLuCluster, "linalg/lu_cluster.cuh", "lu_cluster", false},
};

struct LeafVariant {
  DType dtype;
  bool shared = true;
};

std::uint64_t pack(const LeafVariant& v) {
  return plan::KeyBuilder()
      .field("dtype", v.dtype, plan::kDTypeBits)
      .field("shared", v.shared, 1)
      .key();
}

jit::KernelSpec leaf_spec(const LeafSource& source, const LeafVariant& v) {
  jit::KernelSpec spec;
  spec.file = source.file;
  spec.op = source.name;
  spec.kernel = static_cast<std::uint8_t>(source.kernel);
  spec.variant = pack(v);
  if (source.kernel == LinalgKernel::kLuCluster) spec.exact_sms = {90, 100, 120};
  spec.expression = cat("gpk::", source.name, "<", info(v.dtype).cuda_name,
                        source.panel ? (v.shared ? ", true" : ", false") : "", ">");
  return spec;
}

const Kernel& find(LinalgKernel which, const Array& a, bool shared = true) {
  const LeafVariant v{a.dtype(), shared};
  return kernel(Context::get(a.device().index),
                {Family::linalg, static_cast<std::uint8_t>(which), pack(v)},
                [&] { return leaf_spec(kSources[static_cast<std::size_t>(which)], v); });
}

// --- arguments ----------------------------------------------------------------------------------

int as_int(std::int64_t size, const char* op) {
  if (size > std::numeric_limits<std::int32_t>::max())
    throw InvalidArgument(cat(op, ": a dimension of ", size, ", expected fewer than 2**31"));
  return static_cast<int>(size);
}

LaunchConfig blocks(std::int64_t count, unsigned threads, std::size_t shared_bytes,
                    const char* op) {
  LaunchConfig config;
  config.grid[0] = static_cast<unsigned>(as_int(count, op));
  config.block[0] = threads;
  config.shared_bytes = shared_bytes;
  return config;
}

template <class Args>
void launch(const Kernel& code, const LaunchConfig& config,
            std::initializer_list<const Array*> arrays, Args& args) {
  void* params[] = {&args};
  submit(code, config, arrays, params);
}

// As many matrices at a time as are resident.
template <class Args>
void launch_panel(const Kernel& code, const PanelGrid& grid, std::int64_t batch,
                  std::initializer_list<const Array*> arrays, Args& args, const char* op) {
  for (std::int64_t at = 0; at < batch; at += grid.matrices) {
    args.first_matrix = at;
    LaunchConfig config = blocks(grid.blocks, kernels::kPanelThreads, grid.shared_bytes, op);
    config.grid[1] = static_cast<unsigned>(std::min<std::int64_t>(grid.matrices, batch - at));
    config.cooperative = !grid.cluster;
    if (grid.cluster) {
      config.cluster[0] = static_cast<unsigned>(grid.blocks);
      config.cluster[1] = config.cluster[2] = 1;
    }
    launch(code, config, arrays, args);
  }
}

Scalar integer(std::int64_t value) { return {value}; }

}  // namespace

kernels::LinalgMatrix matrix_of(const Array& a) {
  return {address(a), a.strides()[0], a.strides()[1], a.strides()[2]};
}

void cholesky_leaf(const Array& a, const Array& status, std::int64_t first, const char* op) {
  if (a.size() == 0) return;
  if (!a.device().is_cuda()) {
    run_on_cpu({"linalg_leaf_cholesky", {}, {a, status}, {{"first", integer(first)}}});
    return;
  }
  kernels::CholeskyArgs args{matrix_of(a), address(status), as_int(rows(a), op), as_int(first, op)};
  launch(find(LinalgKernel::kCholesky, a), blocks(a.shape()[0], kLinalgThreads, 0, op),
         {&a, &status}, args);
}

void triangular_leaf(const Array& t, const Array& b, bool unit, bool conjugate, const char* op) {
  if (b.size() == 0) return;
  if (!b.device().is_cuda()) {
    run_on_cpu({"linalg_leaf_triangular",
                {t},
                {b},
                {{"unit", Scalar(unit)}, {"conjugate", Scalar(conjugate)}}});
    return;
  }
  kernels::TriangularArgs args{};
  args.t = matrix_of(t);
  args.b = matrix_of(b);
  args.cols = cols(b);
  args.n = as_int(rows(b), op);
  args.unit = unit ? 1 : 0;
  args.conjugate = conjugate && is_complex(t.dtype()) ? 1 : 0;
  launch(find(LinalgKernel::kTriangular, b),
         blocks(b.shape()[0] * ceil_div(cols(b), kernels::kTriangularCols), kLinalgThreads,
                triangular_bytes(args.n, b.dtype()), op),
         {&t, &b}, args);
}

void lu_leaf(const Array& a, const Array& pivots, const Array& status, std::int64_t first,
             const char* op) {
  if (a.size() == 0) return;
  if (!a.device().is_cuda()) {
    run_on_cpu({"linalg_leaf_lu", {}, {a, pivots, status}, {{"first", integer(first)}}});
    return;
  }
  const PanelPlan plan = plan_panel(rows(a), cols(a), a.dtype(), device_traits(a.device()));
  kernels::LuArgs args{};
  args.a = matrix_of(a);
  args.pivots = address(pivots);
  args.pivots_batch = pivots.strides()[0];
  args.status = address(status);
  args.rows = as_int(rows(a), op);
  args.cols = as_int(cols(a), op);
  args.first = as_int(first, op);
  launch(find(LinalgKernel::kLu, a, plan.shared),
         blocks(a.shape()[0], plan.threads, plan.shared_bytes, op), {&a, &pivots, &status}, args);
}

PanelGrid panel_grid(PanelKind kind, const Array& a) {
  if (!a.device().is_cuda()) return {};
  const DeviceTraits& traits = device_traits(a.device());
  return plan_panel_grid({kind, a.shape()[0], rows(a), cols(a), a.dtype()}, traits,
                         stream_sms(a.device()));
}

Array new_exchange(const PanelGrid& grid, const Array& a, const char* op) {
  const std::int64_t words = grid.blocks > 1 ? kernels::kPanelSlotWords : 1;
  return full({a.shape()[0], words}, Scalar(std::int64_t{0}), DType::kInt64, a.device(), op);
}

void lu_panel(const Array& a, const Array& pivots, const Array& status,
              const std::optional<Array>& exchange, std::int64_t first, const PanelGrid& grid,
              const char* op) {
  kernels::LuPanelArgs args{};
  args.a = matrix_of(a);
  args.pivots = address(pivots);
  args.pivots_batch = pivots.strides()[0];
  args.status = address(status);
  args.exchange = address(exchange);
  args.rows = as_int(rows(a), op);
  args.cols = as_int(cols(a), op);
  args.rows_per_block = grid.rows;
  args.first = as_int(first, op);
  launch_panel(find(grid.cluster ? LinalgKernel::kLuCluster : LinalgKernel::kLuPanel, a), grid,
               a.shape()[0], {&a, &pivots, &status, exchange ? &*exchange : nullptr}, args, op);
}

void swap_rows(const Array& a, const Array& pivots, std::int64_t first, bool backward,
               const char* op) {
  if (a.size() == 0 || pivots.size() == 0) return;
  if (!a.device().is_cuda()) {
    run_on_cpu({"linalg_leaf_swap_rows",
                {pivots},
                {a},
                {{"first", integer(first)}, {"backward", Scalar(backward)}}});
    return;
  }
  kernels::SwapRowsArgs args{};
  args.a = matrix_of(a);
  args.pivots = address(pivots);
  args.pivots_batch = pivots.strides()[0];
  args.cols = cols(a);
  args.count = as_int(pivots.shape()[1], op);
  args.first = as_int(first, op);
  args.backward = backward ? 1 : 0;
  args.rows = as_int(rows(a), op);
  launch(find(LinalgKernel::kSwapRows, a),
         blocks(a.shape()[0] * ceil_div(cols(a), kernels::kSwapLineBytes / itemsize(a.dtype())),
                kLinalgThreads, 0, op),
         {&a, &pivots}, args);
}

void qr_leaf(const Array& a, const Array& tau, const char* op) {
  if (a.size() == 0) return;
  if (!a.device().is_cuda()) {
    run_on_cpu({"linalg_leaf_qr", {}, {a, tau}});
    return;
  }
  const PanelPlan plan = plan_panel(rows(a), cols(a), a.dtype(), device_traits(a.device()));
  kernels::QrArgs args{matrix_of(a), address(tau), tau.strides()[0], as_int(rows(a), op),
                       as_int(cols(a), op)};
  launch(find(LinalgKernel::kQr, a, plan.shared),
         blocks(a.shape()[0], plan.threads, plan.shared_bytes, op), {&a, &tau}, args);
}

void qr_panel(const Array& a, const WyFactors& wy, const Array& exchange, std::int64_t first,
              const PanelGrid& grid, const char* op) {
  kernels::QrPanelArgs args{};
  args.a = matrix_of(a);
  args.v = matrix_of(wy.v);
  args.t = matrix_of(wy.t);
  args.exchange = address(exchange);
  args.rows = as_int(rows(a), op);
  args.cols = as_int(cols(a), op);
  args.rows_per_block = grid.rows;
  args.first = as_int(first, op);
  launch_panel(find(LinalgKernel::kQrPanel, a), grid, a.shape()[0], {&a, &wy.v, &wy.t, &exchange},
               args, op);
}

void wy_leaf(const Array& gram, const Array& tau, const Array& t, const char* op) {
  if (t.size() == 0) return;
  if (!t.device().is_cuda()) {
    run_on_cpu({"linalg_leaf_wy", {gram, tau}, {t}});
    return;
  }
  kernels::WyArgs args{};
  args.gram = matrix_of(gram);
  args.t = matrix_of(t);
  args.tau = address(tau);
  args.tau_batch = tau.strides()[0];
  args.n = as_int(rows(t), op);
  launch(find(LinalgKernel::kWy, t), blocks(t.shape()[0], kernels::kLinalgPanel, 0, op),
         {&gram, &tau, &t}, args);
}

void matrix_product(const Array& c, const Array& a, const Array& b, bool subtract, const char* op) {
  const ProductPlan plan = plan_product(c.dtype());
  kernels::ProductArgs args{};
  args.a = matrix_of(a);
  args.b = matrix_of(b);
  args.c = matrix_of(c);
  args.m = rows(c);
  args.n = cols(c);
  args.k = cols(a);
  args.subtract = subtract ? 1 : 0;
  launch(find(LinalgKernel::kProduct, c),
         blocks(plan.tiles(c.shape()[0], rows(c), cols(c)), kernels::kProductThreads,
                plan.shared_bytes, op),
         {&a, &b, &c}, args);
}

EighLeaf eigh_leaf(const Array& a, const Array& status, bool relative, bool descending,
                   const char* op) {
  const std::int64_t batch = a.shape()[0];
  const std::int64_t n = rows(a);
  const DType real = real_part_of(a.dtype());
  const EighLeaf result{Array::empty({batch, n}, real, a.device(), op),
                        Array::empty({batch, n, n}, a.dtype(), a.device(), op),
                        Array::empty({batch}, real, a.device(), op)};
  if (a.size() == 0) return result;
  if (!a.device().is_cuda()) {
    run_on_cpu({"linalg_leaf_eigh",
                {a},
                {result.w, result.v, result.off, status},
                {{"relative", Scalar(relative)}, {"descending", Scalar(descending)}}});
    return result;
  }
  kernels::EighArgs args{};
  args.a = matrix_of(a);
  args.v = matrix_of(result.v);
  args.w = address(result.w);
  args.off = address(result.off);
  args.status = address(status);
  args.w_batch = n;
  args.n = as_int(n, op);
  args.relative = relative ? 1 : 0;
  args.descending = descending ? 1 : 0;
  launch(find(LinalgKernel::kEigh, a),
         blocks(batch, kLinalgThreads, 2 * matrix_bytes(n, n, a.dtype()), op),
         {&a, &result.w, &result.v, &result.off, &status}, args);
  return result;
}

void enumerate_leaves(std::vector<jit::KernelSpec>& specs) {
  for (const LeafSource& source : kSources)
    for (const DType dtype : kDTypes) {
      if (source.kernel == LinalgKernel::kProduct && !is_double(dtype)) continue;
      specs.push_back(leaf_spec(source, {dtype, true}));
      if (source.panel) specs.push_back(leaf_spec(source, {dtype, false}));
    }
}

}  // namespace gpk::ops::linalg
