// The engine of rows grouped on the device: each row of A times the B of its group, where groups
// are known to the device only. Kernels: kernels/matmul/grouped.cuh, tiles without tensor cores.
#include <algorithm>

#include "base/ceil_div.h"
#include "base/text.h"
#include "core/context.h"
#include "core/promote.h"
#include "kernels/args/matmul.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/kernel_table.h"
#include "ops/matmul/formats.h"
#include "ops/matmul/kernel_ids.h"
#include "ops/submit.h"

namespace gpk::ops::gemm {
namespace {

constexpr const char* kOp = "grouped_gemm";
constexpr unsigned kThreads = 256;
constexpr unsigned kGroupRowsThreads = 1024;
constexpr std::int64_t kTile = kernels::GroupedArgs::kTile;
constexpr double kShare = 0.4;  // of float32's rate, as the general engine's tiles
constexpr DType kDTypes[] = {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};

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

// The rows sorted by expert, and how many each has: int32.
struct SortedRows {
  Array sizes;
  Array rows;
};

SortedRows group_rows(const Array& ids, std::int64_t experts) {
  const std::int64_t m = ids.size();
  const Device device = ids.device();
  // One more group for rows without an expert.
  const SortedRows groups{Array::empty({experts + 1}, DType::kInt32, device, kOp),
                          Array::empty({m}, DType::kInt32, device, kOp)};
  const Array next = Array::empty({experts + 1}, DType::kInt32, device, kOp);
  kernels::GroupRowsArgs args{};
  args.ids = address(ids);
  args.sizes = address(groups.sizes);
  args.next = address(next);
  args.rows = address(groups.rows);
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

void launch_tiles(const GemmCall& call, const MatmulDesc& desc, const Array& sizes,
                  const Array* rows) {
  const MatmulProblem& p = desc.problem;
  kernels::GroupedArgs args{};
  args.x = address(call.a);
  args.w = address(call.b);
  args.c = address(call.c);
  args.sizes = address(sizes);
  args.rows = address(rows);
  args.m = p.m;
  args.n = p.n;
  args.k = p.k;
  args.experts = desc.groups.count;
  args.x_m = p.a_m;
  args.x_k = p.a_k;
  args.w_e = desc.groups.b_stride;
  args.w_n = p.b_n;
  args.w_k = p.b_k;
  args.c_m = p.c_m;
  args.c_n = p.c_n;
  args.sizes_step = sizes.strides()[0];
  args.tiles_n = ceil_div(p.n, kTile);
  const DType dtype = desc.a.dtype;
  const Kernel& k = kernel(Context::get(call.c.device().index),
                           {Family::matmul, kGroupedKernel, static_cast<std::uint64_t>(dtype)},
                           [&] { return grouped_spec(dtype); });
  // Each group, and the rows of none, may end in a tile that is not full.
  const std::int64_t tiles_m = args.m / kTile + std::min(args.m, args.experts + 1);
  void* params[] = {&args};
  submit(k, grid_1d(tiles_m * args.tiles_n, 1, kThreads), {&call.a, &call.b, &call.c, &sizes, rows},
         params);
}

}  // namespace

bool takes_grouped(const MatmulDesc& d) {
  const bool sizes_or_ids =
      d.groups.kind == GroupKind::kSizes || d.groups.kind == GroupKind::kExpertIds;
  if (!sizes_or_ids || !d.groups.on_device || !d.a.is_plain() || !d.b.is_plain()) return false;
  return d.a.dtype == d.b.dtype && d.a.dtype == d.dtype_c && is_float(d.a.dtype) &&
         !is_storage_only(d.a.dtype);
}

void propose_grouped(const MatmulDesc& desc, const GemmMachine& machine,
                     std::vector<MatmulPlan>& plans) {
  if (!takes_grouped(desc) || desc.epilogue != 0) return;
  MatmulPlan plan;
  plan.engine = MatmulEngine::grouped;
  plan.fused = true;
  plan.tile_m = plan.tile_n = kTile;
  plan.tile_k = 16;
  double us = kLaunchUs + std::max(flops(desc) / (kShare * simt_flops_per_us(machine)),
                                   operands_us(desc, machine));
  if (desc.groups.kind == GroupKind::kExpertIds) us += kLaunchUs;
  plan.predicted_us = static_cast<float>(us);
  plans.push_back(plan);
}

void launch_grouped(const GemmCall& call, const MatmulDesc& desc, const MatmulPlan& plan,
                    const char* op) {
  (void)plan;
  const Array indices = cast(*call.groups.device, DType::kInt32, op);
  if (desc.groups.kind == GroupKind::kSizes) {
    launch_tiles(call, desc, indices, nullptr);
    return;
  }
  const SortedRows groups = group_rows(indices, desc.groups.count);
  launch_tiles(call, desc, groups.sizes, &groups.rows);
}

// Always there: in the bundle.
jit::KernelSpec spec_grouped(const MatmulDesc& desc, const MatmulPlan& plan) {
  (void)desc;
  (void)plan;
  return {};
}

void enumerate_grouped(std::vector<jit::KernelSpec>& specs) {
  for (const DType dtype : kDTypes) specs.push_back(grouped_spec(dtype));
  specs.push_back(group_rows_spec());
}

}  // namespace gpk::ops::gemm
