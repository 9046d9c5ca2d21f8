#include "ops/linalg/leaves.h"

#include <limits>

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/text.h"
#include "core/context.h"
#include "core/promote.h"
#include "kernels/args/linalg.h"
#include "ops/cpu_backend.h"
#include "ops/device_address.h"
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
  const char* op;
  bool panel;  // has a variant in shared memory and one in place
};
constexpr LeafSource kSources[] = {
    {LinalgKernel::kCholesky, "linalg/cholesky.cuh", "cholesky_leaf", "cholesky", false},
    {LinalgKernel::kTriangular, "linalg/triangular.cuh", "triangular_leaf", "solve", false},
    {LinalgKernel::kLu, "linalg/lu.cuh", "lu_leaf", "lu", true},
    {LinalgKernel::kSwapRows, "linalg/lu.cuh", "swap_rows", "lu", false},
    {LinalgKernel::kQr, "linalg/qr.cuh", "qr_leaf", "qr", true},
    {LinalgKernel::kWy, "linalg/qr.cuh", "wy_leaf", "qr", false},
    {LinalgKernel::kEigh, "linalg/eigh.cuh", "eigh_leaf", "eigh", false},
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
  spec.op = source.op;
  spec.kernel = static_cast<std::uint8_t>(source.kernel);
  spec.variant = pack(v);
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

kernels::LinalgMatrix matrix_of(const Array& a) {
  return {address(a), a.strides()[0], a.strides()[1], a.strides()[2]};
}

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

Scalar integer(std::int64_t value) { return {value}; }

}  // namespace

void cholesky_leaf(const Array& a, const Array& status, std::int64_t first, const char* op) {
  if (a.size() == 0) return;
  if (!a.device().is_cuda()) {
    run_on_cpu({"linalg_leaf_cholesky", {}, {a, status}, {{"first", integer(first)}}});
    return;
  }
  kernels::CholeskyArgs args{matrix_of(a), address(status), as_int(rows(a), op), as_int(first, op)};
  launch(find(LinalgKernel::kCholesky, a),
         blocks(a.shape()[0], kLinalgThreads, matrix_bytes(args.n, args.n, a.dtype()), op),
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
  const std::size_t shared_bytes =
      matrix_bytes(args.n, args.n, b.dtype()) +
      static_cast<std::size_t>(args.n) * kernels::kTriangularCols * itemsize(b.dtype());
  launch(find(LinalgKernel::kTriangular, b),
         blocks(b.shape()[0] * ceil_div(cols(b), kernels::kTriangularCols), kLinalgThreads,
                shared_bytes, op),
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
  launch(find(LinalgKernel::kSwapRows, a),
         blocks(a.shape()[0] * ceil_div(cols(a), kLinalgThreads), kLinalgThreads, 0, op),
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
      specs.push_back(leaf_spec(source, {dtype, true}));
      if (source.panel) specs.push_back(leaf_spec(source, {dtype, false}));
    }
}

}  // namespace gpk::ops::linalg
