#include "ops/matmul/gemm_tiles.h"

#include <algorithm>
#include <limits>

#include "base/ceil_div.h"
#include "core/promote.h"
#include "ops/device_address.h"
#include "ops/matmul/finish.h"
#include "ops/matmul/matmul_args.h"
#include "ops/submit.h"

namespace gpk::ops::gemm {
namespace {

constexpr double kTrafficShare = 0.65;  // of memory's rate that these pipelines reach (H200)

constexpr std::int64_t kMaxK = std::int64_t{1} << 30;  // kernels count k in 32 bits
constexpr std::int64_t kMaxBlocks = std::int64_t{1} << 30;
constexpr std::int64_t kMaxSplits = 64;
constexpr std::int64_t kLeastSteps = 4;         // tiles of K that a split has at least
constexpr std::int32_t kGroup = 8;              // rows of tiles; 4 and 16 measured the same
constexpr double kRoundUs = 0.7;                // to fill a pipeline and to store a tile
constexpr std::int64_t kReservedShared = 1024;  // per block, by the system

std::int64_t num_tiles(const MatmulProblem& p, const GemmTile& tile) {
  return p.num_batches() * ceil_div(p.m, tile.m) * ceil_div(p.n, tile.n);
}

std::int64_t k_per_split(std::int64_t k, std::int64_t splits, const GemmTile& tile) {
  return std::max<std::int64_t>(1, ceil_div(ceil_div(k, splits), tile.k)) * tile.k;
}

}  // namespace

OrientedDesc orient(const MatmulDesc& desc) {
  const bool transpose = !desc.c_n_major() && desc.c_m_major();
  return {transpose, transpose ? transposed(desc) : desc};
}

bool tiles_fit(const MatmulDesc& desc) {
  return (desc.a_k_major() || desc.a_m_major()) && (desc.b_k_major() || desc.b_n_major()) &&
         desc.problem.k <= kMaxK;
}

bool takes_sums(const MatmulDesc& oriented) {
  const MatmulProblem& p = oriented.problem;
  if (oriented.dtype_c != oriented.dtype_acc || oriented.epilogue != 0) return false;
  if (p.c_n != 1 || (p.m != 1 && p.c_m != p.n)) return false;
  std::int64_t step = p.m * p.n;
  for (int d = p.batch_shape.size() - 1; d >= 0; --d) {
    if (p.batch_c[d] != step) return false;
    step *= p.batch_shape[d];
  }
  return true;
}

bool tiles_need_finish(const MatmulDesc& oriented, DType own, std::int64_t splits) {
  if (splits > 1) return true;
  if (oriented.dtype_c == own)
    return oriented.epilogue != 0 && oriented.dtype_acc != DType::kFloat32;
  return !takes_sums(oriented);
}

double tiles_us(const MatmulDesc& oriented, const GemmMachine& machine, const GemmTile& tile,
                double flops_per_us, DType own, std::int64_t splits) {
  const MatmulProblem& p = oriented.problem;
  const std::int64_t part =
      std::min(k_per_split(p.k, splits, tile), std::max<std::int64_t>(p.k, 1));
  const std::int64_t tiles = num_tiles(p, tile) * splits;
  const std::int64_t blocks =
      std::clamp<std::int64_t>(static_cast<std::int64_t>(machine.shared_bytes + kReservedShared) /
                                   (tile.shared_bytes + kReservedShared),
                               1, tile.max_blocks);
  const std::int64_t busiest = ceil_div(tiles, machine.sms);
  const std::int64_t resident = std::min(busiest, blocks);
  const double missing =
      blocks == 1 ? 0.0 : static_cast<double>(blocks - resident) / static_cast<double>(blocks - 1);
  const double rate =
      flops_per_us / machine.sms * tile.share * (1.0 - missing * (1.0 - tile.alone));
  const double tile_flops = 2.0 * tile.m * tile.n * static_cast<double>(part);
  double rounds = static_cast<double>(busiest) * tile_flops / rate +
                  (kRoundUs + tile.fill_us) * static_cast<double>(ceil_div(busiest, blocks));
  if (splits == 1 && tile.store_elems_per_us > 0.0)
    rounds += static_cast<double>(busiest * std::min<std::int64_t>(p.m, tile.m) *
                                  std::min<std::int64_t>(p.n, tile.n)) /
              tile.store_elems_per_us;
  const double through_l2 =
      static_cast<double>(tiles) * (tile.m + tile.n) * static_cast<double>(part) *
      static_cast<double>(itemsize(oriented.a.dtype)) / l2_bytes_per_us(machine);
  const double bytes = std::max(through_l2, operands_us(oriented, machine) / kTrafficShare);
  double us = kLaunchUs + std::max(rounds, bytes);
  if (tiles_need_finish(oriented, own, splits)) us += finish_us(oriented, machine, splits);
  return us;
}

void propose_tile(const OrientedDesc& oriented, const GemmMachine& machine, MatmulEngine engine,
                  std::uint8_t kernel, const GemmTile& tile, double flops_per_us, DType own,
                  std::vector<MatmulPlan>& plans, std::int64_t fixed_splits) {
  const MatmulProblem& p = oriented.desc.problem;
  if (static_cast<std::size_t>(tile.shared_bytes) > machine.shared_bytes ||
      num_tiles(p, tile) > kMaxBlocks)
    return;
  std::int64_t most = std::clamp<std::int64_t>(ceil_div(p.k, tile.k) / kLeastSteps, 1, kMaxSplits);
  if (oriented.desc.batch_invariant) most = 1;
  if (fixed_splits != 0) most = fixed_splits;
  MatmulPlan best;
  best.predicted_us = std::numeric_limits<float>::max();
  for (std::int64_t splits = std::max<std::int64_t>(1, fixed_splits); splits <= most;
       splits += std::max<std::int64_t>(1, splits / 2)) {
    const std::int64_t part = k_per_split(p.k, splits, tile);
    const std::int64_t parts = std::max<std::int64_t>(1, ceil_div(p.k, part));
    const auto us =
        static_cast<float>(tiles_us(oriented.desc, machine, tile, flops_per_us, own, parts));
    if (us < best.predicted_us) {
      best.splits = parts;
      best.k_per_split = part;
      best.predicted_us = us;
    }
    if (num_tiles(p, tile) * splits > std::int64_t{machine.sms} * 8) break;
  }
  best.engine = engine;
  best.kernel = kernel;
  best.transpose = oriented.transpose;
  best.fused = true;
  best.tile_m = tile.m;
  best.tile_n = tile.n;
  best.tile_k = tile.k;
  best.stages = tile.stages;
  best.group = kGroup;
  plans.push_back(best);
}

void launch_tiles(const GemmCall& call, const MatmulDesc& desc, const MatmulPlan& plan,
                  const Kernel& kernel, const GemmTile& tile, DType own, const char* op,
                  void* extra) {
  const bool swap = plan.transpose;
  std::optional<MatmulDesc> t;
  if (swap) t = transposed(desc);
  const MatmulDesc& oriented = t ? *t : desc;
  const MatmulProblem& p = oriented.problem;
  MatmulArgs args = make_matmul_args(p, plan.splits, plan.k_per_split);
  args.a = address(swap ? call.b : call.a);
  args.b = address(swap ? call.a : call.b);
  args.c = address(call.c);
  std::optional<Array> partial;
  if (tiles_need_finish(oriented, own, plan.splits)) {
    partial = make_partial(desc, plan.splits, call.c.device(), op);
    args.partial = address(partial);
  } else if (desc.dtype_c != own) {
    args.partial = args.c;
  }
  EpilogueArgs epilogue = make_epilogue_args(call, desc.steps);
  kernels::TileGrid grid{static_cast<unsigned>(ceil_div(p.m, tile.m)),
                         static_cast<unsigned>(ceil_div(p.n, tile.n)),
                         static_cast<unsigned>(plan.group), swap ? 1u : 0u,
                         args.partial != nullptr ? 0u : desc.epilogue};
  LaunchConfig config = grid_1d(num_tiles(p, tile), 1, static_cast<unsigned>(tile.threads));
  config.grid[1] = static_cast<unsigned>(plan.splits);
  config.shared_bytes = static_cast<std::size_t>(tile.shared_bytes);
  void* params[] = {&args, &epilogue, &grid, extra};
  submit(kernel, config, arrays_of(call, partial ? &*partial : nullptr), params);
  if (partial) launch_finish(call, desc, *partial, plan.splits, swap);
}

}  // namespace gpk::ops::gemm
