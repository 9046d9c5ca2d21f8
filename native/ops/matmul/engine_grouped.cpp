// The engine of rows grouped on the device: each row of A times the B of its group, where groups
// are known to the device only. Kernels: grouped_wgmma.cuh (SM90), grouped_mma.cuh (mma.sync), and
// grouped.cuh, without tensor cores, for all types and strides.
#include <algorithm>

#include "base/ceil_div.h"
#include "base/text.h"
#include "core/context.h"
#include "core/promote.h"
#include "kernels/args/matmul.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/kernel_table.h"
#include "ops/matmul/grouped_plan.h"
#include "ops/matmul/kernel_ids.h"
#include "ops/matmul/matmul_args.h"
#include "ops/matmul/tma_matrix.h"
#include "ops/matmul/wgmma_plan.h"
#include "ops/moe/permute.h"
#include "ops/moe/unpermute.h"
#include "ops/submit.h"
#include "plan/key_builder.h"

namespace gpk::ops::gemm {
namespace {

constexpr const char* kOp = "grouped_gemm";
constexpr unsigned kThreads = 256;
constexpr unsigned kGroupRowsThreads = 1024;
constexpr std::int64_t kTile = kernels::GroupedArgs::kTile;
constexpr float kProgrammaticUs = 20.0f;  // as engine wgmma
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

void launch_simt(const GemmCall& call, const MatmulDesc& desc, const Array& sizes,
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

// --- tensor cores --------------------------------------------------------------------------------

std::uint64_t key_of(const GroupedVariant& v) {
  return plan::KeyBuilder()
      .field("dtype", v.dtype, plan::kDTypeBits)
      .field("tile_m / 64", v.tile_m / 64, 3)
      .field("tile_n / 64", v.tile_n / 64, 3)
      .field("stages", v.stages, 4)
      .field("b_n_major", v.b_n_major, 1)
      .key();
}

std::uint8_t kernel_id(const GroupedVariant& v) {
  return v.kernel == GroupedKernel::kWgmma ? kGroupedWgmmaKernel : kGroupedMmaKernel;
}

jit::KernelSpec spec_of(const GroupedVariant& v) {
  jit::KernelSpec spec;
  spec.op = kOp;
  spec.kernel = kernel_id(v);
  spec.variant = key_of(v);
  spec.bundled = false;
  const char* const type = info(v.dtype).cuda_name;
  if (v.kernel == GroupedKernel::kWgmma) {
    spec.file = "matmul/grouped_wgmma.cuh";
    spec.exact_sms = {90};
    spec.expression = cat("gpk::grouped_wgmma_kernel<", type, ", ", v.tile_m, ", ", v.tile_n, ", ",
                          wgmma_reps(v.tile_m), ", ", v.stages, ", ", v.b_n_major ? 1 : 0, ">");
    return spec;
  }
  const MmaKernel kernel = grouped_mma_kernel(v.tile_m);
  const GemmTile tile = mma_tile(kernel, itemsize(v.dtype));
  const WarpTile warp = warp_tile(kernel);
  spec.file = "matmul/grouped_mma.cuh";
  spec.expression =
      cat("gpk::grouped_mma_kernel<", type, ", ", tile.m, ", ", tile.n, ", ", tile.k, ", ", warp.m,
          ", ", warp.n, ", ", tile.stages, ", ", v.b_n_major ? "false" : "true", ">");
  return spec;
}

kernels::GroupTilesArgs tiles_args(const MatmulDesc& desc, const MatmulPlan& plan,
                                   const Array& sizes) {
  const auto narrow = [](std::int64_t x) { return static_cast<std::int32_t>(x); };
  kernels::GroupTilesArgs args{};
  args.sizes = address(sizes);
  args.sizes_step = sizes.strides()[0];
  args.m = narrow(desc.problem.m);
  args.groups = narrow(desc.groups.count);
  args.tiles_n = narrow(ceil_div(desc.problem.n, plan.tile_n));
  args.raster = plan.group;
  return args;
}

// Blocks that are resident at one time, or one per tile where those are fewer.
LaunchConfig persistent_grid(const MatmulDesc& desc, const MatmulPlan& plan, std::int64_t resident,
                             int threads) {
  const MatmulProblem& p = desc.problem;
  const std::int64_t tiles_m = p.m / plan.tile_m + std::min(p.m, desc.groups.count + 1);
  LaunchConfig config;
  config.grid[0] = static_cast<unsigned>(std::min(resident, tiles_m * ceil_div(p.n, plan.tile_n)));
  config.block[0] = static_cast<unsigned>(threads);
  config.shared_bytes = grouped_shared_bytes(plan, desc.a.dtype, desc.groups.count);
  return config;
}

void launch_wgmma_tiles(const GemmCall& call, const MatmulDesc& desc, const MatmulPlan& plan,
                        const Array& sizes, const Kernel& code, std::int64_t sms) {
  const MatmulProblem& p = desc.problem;
  const std::int64_t groups = desc.groups.count;
  const int type = tma_type(desc.a.dtype, desc.tf32);
  const bool n_major = !desc.b_k_major();
  const int chunk = wgmma_chunk(plan, WgmmaStoreKind::kRows, desc.dtype_c);
  cu::TensorMap maps[3] = {
      tma_map({call.a, p.k, p.m, p.a_m, 1, 0}, type, plan.tile_k, plan.tile_m, 128),
      n_major ? tma_map({call.b, p.n, p.k, p.b_k, groups, desc.groups.b_stride}, type, 64,
                        plan.tile_k, 128)
              : tma_map({call.b, p.k, p.n, p.b_n, groups, desc.groups.b_stride}, type, plan.tile_k,
                        plan.tile_n, 128),
      tma_map({call.c, p.n, p.m, p.c_m, 1, 0}, tma_type(desc.dtype_c), chunk, 64, 128)};
  kernels::GroupedWgmmaArgs args{};
  args.tiles = tiles_args(desc, plan, sizes);
  args.c = address(call.c);
  args.c_m = p.c_m;
  args.n = static_cast<std::int32_t>(p.n);
  args.k_steps = static_cast<std::int32_t>(ceil_div(p.k, plan.tile_k));
  LaunchConfig config = persistent_grid(desc, plan, sms, wgmma_threads(plan.tile_m));
  config.programmatic = plan.predicted_us < kProgrammaticUs;
  void* params[] = {&maps[0], &maps[1], &maps[2], &args};
  submit(code, config, {&call.a, &call.b, &call.c, &sizes}, params);
}

void launch_mma_tiles(const GemmCall& call, const MatmulDesc& desc, const MatmulPlan& plan,
                      const Array& sizes, const Kernel& code, std::int64_t sms) {
  const GemmTile tile = mma_tile(grouped_mma_kernel(plan.tile_m), itemsize(desc.a.dtype));
  MatmulArgs args = make_matmul_args(desc.problem, 1, desc.problem.k);
  args.a = address(call.a);
  args.b = address(call.b);
  args.c = address(call.c);
  kernels::GroupTilesArgs tiles = tiles_args(desc, plan, sizes);
  long long b_step = desc.groups.b_stride;
  const LaunchConfig config = persistent_grid(desc, plan, sms * tile.max_blocks, tile.threads);
  void* params[] = {&args, &tiles, &b_step};
  submit(code, config, {&call.a, &call.b, &call.c, &sizes}, params);
}

// Rows are sorted by group.
void launch_sorted(const GemmCall& call, const MatmulDesc& desc, const MatmulPlan& plan,
                   const Array& sizes) {
  Context& context = Context::get(call.c.device().index);
  const GroupedVariant variant = grouped_variant(desc, plan);
  const Kernel& code = kernel(context, {Family::matmul, kernel_id(variant), key_of(variant)},
                              [&] { return spec_of(variant); });
  const std::int64_t sms = context.traits().multiprocessor_count;
  if (variant.kernel == GroupedKernel::kWgmma) {
    launch_wgmma_tiles(call, desc, plan, sizes, code, sms);
  } else {
    launch_mma_tiles(call, desc, plan, sizes, code, sms);
  }
}

// Rows in any order: sorted before, put back after.
void launch_by_ids(const GemmCall& call, const MatmulDesc& desc, const MatmulPlan& plan,
                   const Array& ids, const char* op) {
  const MoePermutation sorted = moe_permute(call.a, ids, desc.groups.count, std::nullopt, op);
  GemmCall rows = call;
  rows.a = sorted.rows;
  rows.c = Array::empty(call.c.shape(), call.c.dtype(), call.c.device(), op);
  launch_sorted(rows, make_desc(rows), plan, sorted.sizes);
  moe_unpermute(rows.c, sorted.row_map, std::nullopt, call.c, op);
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
  all_grouped_plans(desc, machine, plans);
}

void launch_grouped(const GemmCall& call, const MatmulDesc& desc, const MatmulPlan& plan,
                    const char* op) {
  const bool simt = static_cast<GroupedKernel>(plan.kernel) == GroupedKernel::kSimt;
  if (desc.groups.kind == GroupKind::kExpertIds && !simt) {
    launch_by_ids(call, desc, plan, *call.groups.device, op);
    return;
  }
  const Array indices = cast(*call.groups.device, DType::kInt32, op);
  if (!simt) {
    launch_sorted(call, desc, plan, indices);
  } else if (desc.groups.kind == GroupKind::kSizes) {
    launch_simt(call, desc, indices, nullptr);
  } else {
    const SortedRows groups = group_rows(indices, desc.groups.count);
    launch_simt(call, desc, groups.sizes, &groups.rows);
  }
}

// The kernel without tensor cores is always there: in the bundle.
jit::KernelSpec spec_grouped(const MatmulDesc& desc, const MatmulPlan& plan) {
  const GroupedVariant variant = grouped_variant(desc, plan);
  if (variant.kernel == GroupedKernel::kSimt) return {};
  return spec_of(variant);
}

void enumerate_grouped(std::vector<jit::KernelSpec>& specs) {
  for (const DType dtype : kDTypes) specs.push_back(grouped_spec(dtype));
  specs.push_back(group_rows_spec());
  GemmMachine machine;
  MatmulDesc desc;
  desc.groups = {GroupKind::kSizes, true, 64, std::int64_t{4096} * 4096};
  MatmulProblem& p = desc.problem;
  p.m = p.n = p.k = p.a_m = p.c_m = 4096;
  p.a_k = p.c_n = 1;
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16, DType::kFloat32})
    for (const bool n_major : {false, true}) {
      desc.a.dtype = desc.b.dtype = desc.dtype_c = dtype;
      desc.tf32 = dtype == DType::kFloat32;
      p.b_n = n_major ? 1 : 4096;
      p.b_k = n_major ? 4096 : 1;
      std::vector<MatmulPlan> plans;
      all_grouped_plans(desc, machine, plans);
      for (const MatmulPlan& plan : plans) {
        const auto kernel = static_cast<GroupedKernel>(plan.kernel);
        // Every tile of bfloat16; the other types, which share their code, in one.
        const bool repeats = kernel == GroupedKernel::kWgmma && dtype != DType::kBFloat16 &&
                             plan.tile_m * plan.tile_n != 64 * 128;
        if (kernel != GroupedKernel::kSimt && !repeats)
          specs.push_back(spec_of(grouped_variant(desc, plan)));
      }
    }
}

}  // namespace gpk::ops::gemm
