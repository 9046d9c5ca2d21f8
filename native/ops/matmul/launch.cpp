#include "ops/matmul/launch.h"

#include <algorithm>

#include "core/context.h"
#include "core/promote.h"
#include "core/text.h"
#include "ops/elementwise/copy.h"
#include "ops/kernel_table.h"
#include "ops/matmul/plan.h"
#include "ops/submit.h"

namespace gpk::ops {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::uint8_t kFinish = 4;       // after the values of MatmulKind
constexpr std::int64_t kWarpFinish = 16;  // from this many parts on, a warp adds them

// Mirror of the kernels' struct in kernels/matmul/product.cuh.
struct MatmulArgs {
  cu::DevicePtr a, b, c, partial;
  std::int64_t m, n, k;
  std::int64_t a_m, a_k, b_k, b_n, c_m, c_n;
  std::int64_t num_batches, batch_rank;
  std::int64_t splits, k_per_split;
  std::int64_t batch_shape[kMaxMatmulBatchRank];
  std::int64_t batch_a[kMaxMatmulBatchRank];
  std::int64_t batch_b[kMaxMatmulBatchRank];
  std::int64_t batch_c[kMaxMatmulBatchRank];
};

// Signed and unsigned integers share kernels: a wrapping product has the same bits.
DType kernel_dtype(DType dtype) {
  switch (dtype) {
    case DType::kInt8: return DType::kUInt8;
    case DType::kInt16: return DType::kUInt16;
    case DType::kInt32: return DType::kUInt32;
    case DType::kInt64: return DType::kUInt64;
    default: return dtype;
  }
}

// What it accumulates in.
DType accumulator(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kUInt8:
    case DType::kUInt16: return DType::kUInt32;
    case DType::kFloat16:
    case DType::kBFloat16: return DType::kFloat32;
    default: return dtype;
  }
}

// Narrow types have kernels of their own where NVRTC can make them; else they are widened first.
bool is_bundled(DType dtype) { return accumulator(dtype) == dtype || dtype == DType::kBool; }

jit::KernelSpec tiled_spec(DType dtype, MatmulKind kind) {
  jit::KernelSpec spec;
  spec.file = "matmul/tiled.cuh";
  spec.op = "matmul";
  spec.bundled = is_bundled(dtype);
  spec.expression = cat("gpk::matmul_tiled_kernel<", info(dtype).cuda_name, ", ",
                        itemsize(accumulator(dtype)) == 16 ? 8 : 16, ", ",
                        kind == MatmulKind::kTile128 ? 8 : 4, ", 4>");
  return spec;
}

jit::KernelSpec direct_spec(DType dtype, MatmulKind kind, bool conjugate) {
  jit::KernelSpec spec;
  spec.file = "matmul/direct.cuh";
  spec.op = conjugate ? "vecdot" : "matmul";
  spec.bundled = is_bundled(dtype);
  spec.expression =
      cat(kind == MatmulKind::kRows ? "gpk::matmul_rows_kernel<" : "gpk::matmul_direct_kernel<",
          info(dtype).cuda_name, ", ", conjugate, ">");
  return spec;
}

jit::KernelSpec finish_spec(DType dtype) {
  jit::KernelSpec spec;
  spec.file = "matmul/direct.cuh";
  spec.op = "matmul";
  spec.bundled = is_bundled(dtype);
  spec.expression = cat("gpk::matmul_finish_kernel<", info(dtype).cuda_name, ">");
  return spec;
}

bool is_tiled(MatmulKind kind) {
  return kind == MatmulKind::kTile64 || kind == MatmulKind::kTile128;
}

MatmulArgs make_args(const MatmulProblem& p, const MatmulPlan& plan) {
  MatmulArgs args{};
  args.m = p.m;
  args.n = p.n;
  args.k = p.k;
  args.a_m = p.a_m;
  args.a_k = p.a_k;
  args.b_k = p.b_k;
  args.b_n = p.b_n;
  args.c_m = p.c_m;
  args.c_n = p.c_n;
  args.num_batches = p.num_batches();
  args.batch_rank = p.batch_shape.size();
  args.splits = plan.splits;
  args.k_per_split = plan.k_per_split;
  std::copy(p.batch_shape.begin(), p.batch_shape.end(), args.batch_shape);
  std::copy(p.batch_a.begin(), p.batch_a.end(), args.batch_a);
  std::copy(p.batch_b.begin(), p.batch_b.end(), args.batch_b);
  std::copy(p.batch_c.begin(), p.batch_c.end(), args.batch_c);
  return args;
}

struct Launch {
  Context& context;
  DType dtype;  // of the kernels
  const Array& a;
  const Array& b;
  const Array& c;
  const Array* partial;  // nullptr: none

  void tiled(MatmulArgs& args, MatmulKind kind) const {
    const Kernel& k =
        kernel(context,
               {Family::matmul, static_cast<std::uint8_t>(kind), static_cast<std::uint64_t>(dtype)},
               [&] { return tiled_spec(dtype, kind); });
    const std::int64_t tile_m = kind == MatmulKind::kTile128 ? 128 : 64;
    auto tiles_m = static_cast<unsigned>((args.m + tile_m - 1) / tile_m);
    auto tiles_n = static_cast<unsigned>((args.n + 63) / 64);
    LaunchConfig config = grid_1d(args.num_batches * tiles_m * tiles_n, 1, kThreads);
    config.grid[1] = static_cast<unsigned>(args.splits);
    void* params[] = {&args, &tiles_m, &tiles_n};
    submit(k, config, {&a, &b, &c, partial}, params);
  }

  void direct(MatmulArgs& args, MatmulKind kind, bool conjugate) const {
    const Kernel& k =
        kernel(context,
               {Family::matmul, static_cast<std::uint8_t>(kind),
                static_cast<std::uint64_t>(dtype) | static_cast<std::uint64_t>(conjugate) << 8},
               [&] { return direct_spec(dtype, kind, conjugate); });
    const std::int64_t items = args.splits * args.num_batches * args.m * args.n;
    void* params[] = {&args};
    submit(k, grid_1d(items, kind == MatmulKind::kRows ? kThreads / 32 : kThreads, kThreads),
           {&a, &b, &c, partial}, params);
  }

  void finish(MatmulArgs& args) const {
    const Kernel& k = kernel(context, {Family::matmul, kFinish, static_cast<std::uint64_t>(dtype)},
                             [&] { return finish_spec(dtype); });
    int lanes = args.splits >= kWarpFinish ? 32 : 1;
    void* params[] = {&args, &lanes};
    submit(k, grid_1d(args.num_batches * args.m * args.n * lanes, kThreads, kThreads),
           {&c, partial}, params);
  }
};

void launch_problem(const Array& a, const Array& b, const Array& c, MatmulProblem problem,
                    bool conjugate, const char* op) {
  const DType dtype = kernel_dtype(c.dtype());
  Context& context = Context::get(c.device().index);
  const MatmulPlan plan =
      plan_matmul(problem, itemsize(accumulator(dtype)), context.traits().multiprocessor_count);
  // A conjugated operand stays first: vecdot has one row and one column, either order will do.
  const bool swap = plan.transpose && !conjugate;
  if (swap) problem = transposed(problem);
  MatmulArgs args = make_args(problem, plan);
  args.a = (swap ? b : a).device_ptr();
  args.b = (swap ? a : b).device_ptr();
  args.c = c.device_ptr();
  std::optional<Array> partial;
  if (plan.splits > 1) {
    partial = Array::empty({plan.splits * args.num_batches * args.m * args.n}, accumulator(dtype),
                           c.device(), op);
    args.partial = partial->device_ptr();
  }
  const Launch launch{context, dtype, a, b, c, partial ? &*partial : nullptr};
  if (is_tiled(plan.kind)) {
    launch.tiled(args, plan.kind);
  } else {
    launch.direct(args, plan.kind, conjugate);
  }
  if (partial) launch.finish(args);
}

void launch_widened(const Array& a, const Array& b, const Array& c, const char* op) {
  const DType wide = is_float(c.dtype())                           ? DType::kFloat32
                     : info(c.dtype()).kind == DTypeClass::kSigned ? DType::kInt32
                                                                   : DType::kUInt32;
  const Array result = Array::empty(c.shape(), wide, c.device(), op);
  launch_matmul(cast(a, wide, op), cast(b, wide, op), result, false, op);
  copy_into(c, result, op);
}

}  // namespace

void launch_matmul(const Array& a, const Array& b, const Array& c, bool conjugate, const char* op) {
  if (!is_bundled(kernel_dtype(c.dtype())) && !jit::jit_available()) {
    launch_widened(a, b, c, op);
    return;
  }
  MatmulProblem problem = make_problem(a, b, c);
  if (problem.batch_shape.size() <= kMaxMatmulBatchRank) {
    launch_problem(a, b, c, std::move(problem), conjugate, op);
    return;
  }
  const Array a_copy = copy_as(a, a.dtype(), op);
  const Array b_copy = copy_as(b, b.dtype(), op);
  const Array c_copy = Array::empty(c.shape(), c.dtype(), c.device(), op);
  launch_problem(a_copy, b_copy, c_copy, make_problem(a_copy, b_copy, c_copy), conjugate, op);
  copy_into(c, c_copy, op);
}

void enumerate_matmul_kernels(std::vector<jit::KernelSpec>& specs) {
  for (const DTypeInfo& row : gpk::detail::kDTypes) {
    const DType dtype = row.dtype;
    if (is_storage_only(dtype) || kernel_dtype(dtype) != dtype) continue;
    specs.push_back(tiled_spec(dtype, MatmulKind::kTile64));
    if (itemsize(accumulator(dtype)) == 4) specs.push_back(tiled_spec(dtype, MatmulKind::kTile128));
    for (const bool conjugate : {false, true}) {
      if (conjugate && !is_complex(dtype)) continue;
      specs.push_back(direct_spec(dtype, MatmulKind::kDirect, conjugate));
      specs.push_back(direct_spec(dtype, MatmulKind::kRows, conjugate));
    }
    specs.push_back(finish_spec(dtype));
  }
}

}  // namespace gpk::ops
