#include "ops/matmul/grouped_plan.h"

#include <algorithm>
#include <limits>

#include "base/ceil_div.h"
#include "core/promote.h"
#include "kernels/args/matmul.h"
#include "ops/matmul/tma_matrix.h"
#include "ops/matmul/wgmma_cost.h"
#include "ops/matmul/wgmma_plan.h"

namespace gpk::ops::gemm {
namespace {

constexpr double kSimtShare = 0.4;  // of float32's rate, as the general engine's tiles
constexpr std::int32_t kRaster = 8;
constexpr std::int64_t kMaxSize = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMaxSortedExperts = 1024;  // of moe_permute

struct TileShape {
  std::int32_t m, n;
};
// Large first, as in wgmma_plan.
constexpr TileShape kWgmmaTiles[] = {{256, 128}, {128, 256}, {128, 192}, {128, 128},
                                     {64, 256},  {64, 128},  {64, 64}};
constexpr MmaKernel kMmaKernels[] = {MmaKernel::k128x128, MmaKernel::k64x64};

bool has_tensor_cores(const MatmulDesc& desc) {
  return itemsize(desc.a.dtype) == 2 || (desc.a.dtype == DType::kFloat32 && desc.tf32);
}

bool whole_lines(std::int64_t elems, DType dtype) {
  return elems * static_cast<std::int64_t>(itemsize(dtype)) % 16 == 0;
}

// Operands that 16-byte copies can read as they are, and sizes that kernels count in 32 bits. Rows
// with expert ids are sorted first: A and C are contiguous temporaries.
bool is_aligned(const MatmulDesc& desc) {
  const MatmulProblem& p = desc.problem;
  const bool a_fits = desc.groups.kind == GroupKind::kExpertIds
                          ? whole_lines(p.k, desc.a.dtype)
                          : desc.a_k_major() && desc.align_a >= 16;
  return a_fits && (desc.b_k_major() || desc.b_n_major()) && desc.align_b >= 16 &&
         std::max({p.m, p.n, p.k}) < kMaxSize && p.k > 0;
}

bool fits_tma(const MatmulDesc& desc) {
  const MatmulProblem& p = desc.problem;
  const bool own = desc.groups.kind == GroupKind::kExpertIds;  // A and C are temporaries
  // One matrix for all groups would need a map without a coordinate for them.
  const bool b_fits = (desc.b_k_major() || itemsize(desc.b.dtype) == 2) &&
                      (desc.groups.b_stride != 0 || desc.groups.count == 1) &&
                      walks_forward(desc.b_k_major() ? p.b_n : p.b_k, {desc.groups.b_stride});
  // Columns after the last one were seen written on an H200 where a row of C ends inside of 16
  // bytes; the TMA store is suspected, and not used there.
  const bool c_fits = whole_lines(p.n, desc.dtype_c) &&
                      (own || (desc.c_n_major() && desc.align_c >= 16 && walks_forward(p.c_m, {})));
  return (own || walks_forward(p.a_m, {})) && b_fits && c_fits;
}

// As many groups as have rows, of `share` times their average size: one batch each.
MatmulDesc balanced(const MatmulDesc& desc, double share) {
  MatmulDesc result = desc;
  MatmulProblem& p = result.problem;
  const std::int64_t groups = std::clamp<std::int64_t>(desc.groups.count, 1, p.m);
  const auto average = static_cast<double>(p.m) / static_cast<double>(groups);
  p.m = std::max<std::int64_t>(1, static_cast<std::int64_t>(share * average));
  p.batch_shape = {groups};
  p.batch_a = {p.m * p.a_m};
  p.batch_b = {desc.groups.b_stride};
  p.batch_c = {p.m * p.c_m};
  return result;
}

// Sizes of groups are not known: the mean of even ones, and of larger ones (that many fewer).
template <class Cost>
double mean_us(const MatmulDesc& desc, const Cost& cost) {
  constexpr double kLarger = 1.3;
  return (cost(balanced(desc, 1.0)) + cost(balanced(desc, kLarger)) / kLarger) / 2.0;
}

struct Proposer {
  const MatmulDesc& desc;
  const GemmMachine& machine;
  std::vector<MatmulPlan>& plans;

  [[nodiscard]] bool counts(TileShape tile) const {
    const MatmulProblem& p = desc.problem;
    return p.n / tile.n + 1 <= kMaxSize / (p.m / tile.m + std::min(p.m, desc.groups.count + 1) + 1);
  }

  void add(GroupedKernel kernel, TileShape tile, std::int32_t tile_k, std::int32_t stages,
           double us) const {
    MatmulPlan plan;
    plan.engine = MatmulEngine::grouped;
    plan.kernel = static_cast<std::uint8_t>(kernel);
    plan.fused = true;
    plan.tile_m = tile.m;
    plan.tile_n = tile.n;
    plan.tile_k = tile_k;
    plan.stages = stages;
    if (kernel != GroupedKernel::kSimt) plan.group = kRaster;
    if (desc.groups.kind == GroupKind::kExpertIds)
      us += kernel == GroupedKernel::kSimt ? kLaunchUs : sort_us();
    plan.predicted_us = static_cast<float>(us);
    plans.push_back(plan);
  }

  // Rows are sorted before and put back after.
  [[nodiscard]] double sort_us() const {
    const MatmulProblem& p = desc.problem;
    const double bytes = 2.0 * static_cast<double>(p.m) * static_cast<double>(p.k + p.n) *
                         static_cast<double>(itemsize(desc.a.dtype));
    return 3.0 * kLaunchUs + bytes / dram_bytes_per_us(machine);
  }

  void add_simt() const {
    constexpr std::int32_t kTile = kernels::GroupedArgs::kTile;
    const double us = mean_us(desc, [&](MatmulDesc even) {
      const double bytes_us = operands_us(even, machine);
      even.problem.m = ceil_div(even.problem.m, std::int64_t{kTile}) * kTile;  // as it computes
      return kLaunchUs +
             std::max(flops(even) / (kSimtShare * simt_flops_per_us(machine)), bytes_us);
    });
    add(GroupedKernel::kSimt, {kTile, kTile}, 16, 0, us);
  }

  // mma.sync's share of the peak. 0.48: measured for groups of rows.
  [[nodiscard]] double mma_flops_per_us() const {
    double share = 0.85;
    if (machine.sm >= 90 && machine.sm < 100) share = 0.48;
    if (machine.sm >= 100 && machine.sm < 120) share = 0.2;
    return share * tensor_flops_per_us(machine, desc.a.dtype);
  }

  void add_mma() const {
    for (const MmaKernel kernel : kMmaKernels) {
      const GemmTile tile = mma_tile(kernel, itemsize(desc.a.dtype));
      if (!counts({tile.m, tile.n})) continue;
      MatmulPlan plan;
      plan.kernel = static_cast<std::uint8_t>(GroupedKernel::kMma);
      plan.tile_m = tile.m;
      if (grouped_shared_bytes(plan, desc.a.dtype, desc.groups.count) > machine.shared_bytes)
        continue;
      const double us = mean_us(desc, [&](const MatmulDesc& even) {
        return tiles_us(even, machine, tile, mma_flops_per_us(), desc.dtype_c, 1);
      });
      add(GroupedKernel::kMma, {tile.m, tile.n}, tile.k, tile.stages, us);
    }
  }

  void add_wgmma() const {
    for (const TileShape tile : kWgmmaTiles) {
      if (!counts(tile)) continue;
      MatmulPlan plan;
      plan.kernel = static_cast<std::uint8_t>(GroupedKernel::kWgmma);
      plan.tile_m = tile.m;
      plan.tile_n = tile.n;
      plan.tile_k = wgmma_tile_k(desc.a.dtype);
      const auto bytes = [&](std::int32_t stages) {
        plan.stages = stages;
        return grouped_shared_bytes(plan, desc.a.dtype, desc.groups.count);
      };
      std::int32_t stages = 12;
      while (stages > 2 && bytes(stages) > machine.shared_bytes) --stages;
      if (stages < 3) continue;
      // The cost model reads `kernel` as flags of engine wgmma: none.
      plan.kernel = 0;
      plan.stages = stages;
      const double us =
          mean_us(desc, [&](const MatmulDesc& even) { return wgmma_us(even, machine, plan); });
      add(GroupedKernel::kWgmma, tile, plan.tile_k, stages, us);
    }
  }
};

}  // namespace

GroupedVariant grouped_variant(const MatmulDesc& desc, const MatmulPlan& plan) {
  return {static_cast<GroupedKernel>(plan.kernel),
          desc.a.dtype,
          plan.tile_m,
          plan.tile_n,
          plan.stages,
          !desc.b_k_major()};
}

MmaKernel grouped_mma_kernel(std::int32_t tile_m) {
  return tile_m == 128 ? MmaKernel::k128x128 : MmaKernel::k64x64;
}

std::size_t grouped_shared_bytes(const MatmulPlan& plan, DType dtype, std::int64_t groups) {
  const std::size_t table = static_cast<std::size_t>(groups + 1) * sizeof(kernels::GroupEnds);
  if (static_cast<GroupedKernel>(plan.kernel) == GroupedKernel::kMma)
    return table + static_cast<std::size_t>(
                       mma_tile(grouped_mma_kernel(plan.tile_m), itemsize(dtype)).shared_bytes);
  MatmulPlan tile = plan;
  tile.kernel = 0;
  return table + wgmma_shared_bytes(tile, WgmmaStoreKind::kRows, dtype);
}

void all_grouped_plans(const MatmulDesc& desc, const GemmMachine& machine,
                       std::vector<MatmulPlan>& plans) {
  if (!takes_grouped(desc) || desc.epilogue != 0) return;
  const Proposer proposer{desc, machine, plans};
  const bool sorts = desc.groups.kind == GroupKind::kExpertIds;
  if (has_tensor_cores(desc) && is_aligned(desc) && machine.sm >= 80 &&
      (!sorts || desc.groups.count <= kMaxSortedExperts)) {
    if (machine.sm == 90 && fits_tma(desc)) proposer.add_wgmma();
    proposer.add_mma();
  }
  proposer.add_simt();
}

}  // namespace gpk::ops::gemm
