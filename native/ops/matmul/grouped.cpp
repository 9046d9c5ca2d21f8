#include "ops/matmul/grouped.h"

#include <limits>

#include "core/context.h"
#include "core/error.h"
#include "core/promote.h"
#include "core/text.h"
#include "core/view.h"
#include "ops/cpu_backend.h"
#include "ops/elementwise/copy.h"
#include "ops/kernel_table.h"
#include "ops/matmul/kernel_ids.h"
#include "ops/matmul/layer.h"
#include "ops/matmul/precision.h"
#include "ops/matmul/product.h"
#include "ops/matmul/result.h"
#include "ops/submit.h"

namespace gpk::ops {
namespace {

constexpr const char* kOp = "grouped_gemm";
constexpr unsigned kThreads = 256;
constexpr unsigned kGroupRowsThreads = 1024;
constexpr std::int64_t kTile = 64;
constexpr DType kDTypes[] = {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};

// Mirrors of the structs in kernels/matmul/grouped.cuh.
struct GroupedArgs {
  cu::DevicePtr x, w, c, sizes, rows;
  std::int64_t m, n, k, experts;
  std::int64_t x_m, x_k, w_e, w_n, w_k, c_m, c_n, sizes_step;
  std::int64_t tiles_n;
};
struct GroupRowsArgs {
  cu::DevicePtr ids, sizes, next, rows;
  std::int64_t m, experts, ids_step;
};

jit::KernelSpec grouped_spec(DType dtype) {
  jit::KernelSpec spec;
  spec.file = "matmul/grouped.cuh";
  spec.op = kOp;
  spec.kernel = kGroupedKernel;
  spec.variant = static_cast<std::uint64_t>(dtype);
  spec.expression = cat("gpk::grouped_gemm_kernel<", info(dtype).cuda_name, ">");
  return spec;
}

jit::KernelSpec group_rows_spec() {
  jit::KernelSpec spec;
  spec.file = "matmul/grouped.cuh";
  spec.op = kOp;
  spec.kernel = kGroupRowsKernel;
  spec.expression = "gpk::group_rows_kernel";
  return spec;
}

// --- checks -------------------------------------------------------------------------------------

void check_experts(const Array& x, const Array& w) {
  check_layer_dtype(x, "x", kOp);
  check_like(w, "w", x, "x", kOp);
  if (x.ndim() != 2 || w.ndim() != 3 || x.shape()[1] != w.shape()[2])
    throw InvalidArgument(cat(kOp, ": x has shape ", to_string(x.shape()), ", w has shape ",
                              to_string(w.shape()), ", expected (m, k) and (experts, n, k)"));
  if (x.shape()[0] > std::numeric_limits<std::int32_t>::max())
    throw InvalidArgument(cat(kOp, ": x has ", x.shape()[0], " rows, expected up to 2**31 - 1"));
}

void check_indices(const Array& indices, const char* argument, std::int64_t count, const Array& x) {
  if (indices.dtype() != DType::kInt32 && indices.dtype() != DType::kInt64)
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat(kOp, ": ", argument, " has dtype ", name(indices.dtype()),
                              ", expected int32 or int64"));
  if (!(indices.device() == x.device()))
    throw InvalidArgument(cat(kOp, ": ", argument, " is on ", to_string(indices.device()),
                              ", x on ", to_string(x.device())));
  if (indices.ndim() != 1 || indices.size() != count)
    throw InvalidArgument(cat(kOp, ": ", argument, " has shape ", to_string(indices.shape()),
                              ", expected (", count, ",)"));
}

// --- on the device ------------------------------------------------------------------------------

// The rows sorted by expert, and how many each has: int32.
struct RowGroups {
  Array sizes;
  Array rows;
};

RowGroups group_rows(const Array& ids, std::int64_t experts) {
  const std::int64_t m = ids.size();
  const Device device = ids.device();
  // One more group for rows without an expert.
  const RowGroups groups{Array::empty({experts + 1}, DType::kInt32, device, kOp),
                         Array::empty({m}, DType::kInt32, device, kOp)};
  const Array next = Array::empty({experts + 1}, DType::kInt32, device, kOp);
  GroupRowsArgs args{};
  args.ids = ids.device_ptr();
  args.sizes = groups.sizes.device_ptr();
  args.next = next.device_ptr();
  args.rows = groups.rows.device_ptr();
  args.m = m;
  args.experts = experts;
  args.ids_step = ids.strides()[0];
  const Kernel& k = kernel(Context::get(device.index), {Family::matmul, kGroupRowsKernel, 0},
                           [] { return group_rows_spec(); });
  LaunchConfig config;
  config.block[0] = kGroupRowsThreads;
  void* params[] = {&args};
  submit(k, config, {&ids, &groups.sizes, &next, &groups.rows}, params);
  return groups;
}

void launch_grouped(const Array& x, const Array& w, const Array& sizes, const Array* rows,
                    const Array& c) {
  GroupedArgs args{};
  args.x = x.device_ptr();
  args.w = w.device_ptr();
  args.c = c.device_ptr();
  args.sizes = sizes.device_ptr();
  args.rows = rows != nullptr ? rows->device_ptr() : 0;
  args.m = c.shape()[0];
  args.n = c.shape()[1];
  args.k = x.shape()[1];
  args.experts = w.shape()[0];
  args.x_m = x.strides()[0];
  args.x_k = x.strides()[1];
  args.w_e = w.strides()[0];
  args.w_n = w.strides()[1];
  args.w_k = w.strides()[2];
  args.c_m = c.strides()[0];
  args.c_n = c.strides()[1];
  args.sizes_step = sizes.strides()[0];
  args.tiles_n = (args.n + kTile - 1) / kTile;
  const DType dtype = x.dtype();
  const Kernel& k = kernel(Context::get(c.device().index),
                           {Family::matmul, kGroupedKernel, static_cast<std::uint64_t>(dtype)},
                           [&] { return grouped_spec(dtype); });
  // Each group, and the rows of none, may end in a tile that is not full.
  const std::int64_t tiles_m = args.m / kTile + std::min(args.m, args.experts + 1);
  void* params[] = {&args};
  submit(k, grid_1d(tiles_m * args.tiles_n, 1, kThreads), {&x, &w, &c, &sizes, rows}, params);
}

}  // namespace

Array grouped_gemm(const Array& x, const Array& w, std::span<const std::int64_t> group_sizes,
                   const std::optional<Array>& out) {
  check_experts(x, w);
  const std::int64_t m = x.shape()[0];
  if (static_cast<std::int64_t>(group_sizes.size()) != w.shape()[0])
    throw InvalidArgument(cat(kOp, ": group_sizes has ", group_sizes.size(),
                              " elements, w has shape ", to_string(w.shape())));
  std::int64_t sum = 0;
  for (const std::int64_t size : group_sizes) {
    if (size < 0 || size > m - sum)
      throw InvalidArgument(
          cat(kOp, ": group_sizes are not negative and add up to the rows of x, ", m));
    sum += size;
  }
  if (sum != m)
    throw InvalidArgument(cat(kOp, ": group_sizes add up to ", sum, ", x has ", m, " rows"));
  return fill_result(
      out, {m, w.shape()[1]}, x.dtype(), x.device(), {&x, &w}, kOp, [&](const Array& result) {
        std::int64_t first = 0;
        for (std::size_t e = 0; e < group_sizes.size(); ++e) {
          const std::int64_t size = group_sizes[e];
          if (size == 0) continue;
          const Array expert =
              squeeze(slice_axis(w, 0, static_cast<std::int64_t>(e), 1, 1), {0}, kOp);
          Product product{slice_axis(x, 0, first, size, 1), transpose(expert, kOp),
                          slice_axis(result, 0, first, size, 1)};
          product.tf32 = x.dtype() == DType::kFloat32 && tf32_allowed(std::nullopt);
          run_product(product, kOp);
          first += size;
        }
      });
}

Array grouped_gemm_by_sizes(const Array& x, const Array& w, const Array& group_sizes,
                            const std::optional<Array>& out) {
  check_experts(x, w);
  check_indices(group_sizes, "group_sizes", w.shape()[0], x);
  return fill_result(out, {x.shape()[0], w.shape()[1]}, x.dtype(), x.device(),
                     {&x, &w, &group_sizes}, kOp, [&](const Array& result) {
                       if (!result.device().is_cuda()) {
                         run_on_cpu({kOp, {x, w}, {result}, {{"group_sizes", group_sizes}}});
                         return;
                       }
                       launch_grouped(x, w, cast(group_sizes, DType::kInt32, kOp), nullptr, result);
                     });
}

Array grouped_gemm_by_expert(const Array& x, const Array& w, const Array& expert_ids,
                             const std::optional<Array>& out) {
  check_experts(x, w);
  check_indices(expert_ids, "expert_ids", x.shape()[0], x);
  return fill_result(out, {x.shape()[0], w.shape()[1]}, x.dtype(), x.device(),
                     {&x, &w, &expert_ids}, kOp, [&](const Array& result) {
                       if (!result.device().is_cuda()) {
                         run_on_cpu({kOp, {x, w}, {result}, {{"expert_ids", expert_ids}}});
                         return;
                       }
                       const RowGroups groups =
                           group_rows(cast(expert_ids, DType::kInt32, kOp), w.shape()[0]);
                       launch_grouped(x, w, groups.sizes, &groups.rows, result);
                     });
}

void enumerate_grouped(std::vector<jit::KernelSpec>& specs) {
  for (const DType dtype : kDTypes) specs.push_back(grouped_spec(dtype));
  specs.push_back(group_rows_spec());
}

}  // namespace gpk::ops
