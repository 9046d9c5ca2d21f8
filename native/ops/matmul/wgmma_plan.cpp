#include "ops/matmul/wgmma_plan.h"

#include <algorithm>

#include "base/ceil_div.h"
#include "ops/matmul/formats.h"
#include "ops/matmul/tma_matrix.h"
#include "ops/matmul/wgmma_cost.h"

namespace gpk::ops::gemm {
namespace {

struct TileShape {
  int m, n;
};

// Large first: where two take the same time, the larger one reads less. Odd widths make whole waves
// of what would be a little more. Not 256 x 144: on an H200 clusters of it take ten times as long.
constexpr TileShape kTiles[] = {
    {256, 160}, {256, 128}, {128, 256}, {192, 160}, {128, 224}, {192, 144}, {128, 208}, {192, 128},
    {128, 192}, {128, 176}, {128, 160}, {128, 144}, {128, 128}, {64, 256},  {128, 112}, {128, 96},
    {64, 192},  {64, 160},  {128, 64},  {64, 128},  {64, 96},   {64, 64}};
// Of few columns: what is read of A bounds the time, so B's width costs nothing.
constexpr TileShape kThinTiles[] = {{128, 8}, {128, 16}, {128, 32}, {128, 64},
                                    {64, 8},  {64, 16},  {64, 32},  {64, 64}};
constexpr std::int64_t kFew = 64;

constexpr std::int64_t kMaxSize = std::int64_t{1} << 31;  // of coordinates
constexpr std::int64_t kMaxSplits = 16;
constexpr std::size_t kMaxProposals = 8;  // what a measurement would try
constexpr int kMinStages = 3;
constexpr int kMaxStages = 12;

bool is_16bit(DType dtype) { return itemsize(dtype) == 2; }

// Whether TMA and wgmma take an operand as it is. `pitch` is the stride that is not 1.
bool is_packed(bool k_major, bool mn_major, unsigned align, DType dtype, std::int64_t pitch,
               const Dims& batch) {
  return align >= 16 && (k_major || (mn_major && is_16bit(dtype))) && walks_forward(pitch, batch);
}

int widest(int width, int most) { return width % most == 0 ? most : widest(width, most / 2); }

struct Proposer {
  const MatmulDesc& desc;  // transposed() where `transpose`
  const GemmMachine& machine;
  bool transpose;
  std::vector<MatmulPlan>& plans;

  // An N-major B comes in panels of 64. Register pressure rules out the largest tile with an
  // epilogue, many rows with a residual, and most of 8 bits, whose accumulators are kept twice.
  [[nodiscard]] bool fits(TileShape tile, std::uint8_t packs) const {
    if (tile.m * tile.n > 256 * 128 && desc.epilogue != 0) return false;
    if (tile.m == 192 && tile.n > 128 && desc.epilogue != 0) return false;
    if (tile.m > 128 && (desc.epilogue & kEpilogueResidual) != 0) return false;
    if (itemsize(desc.a.dtype) == 1 && desc.dtype_acc == DType::kFloat32 && !desc.fast_accum) {
      const bool scales_only = (desc.epilogue & ~kEpilogueScales) == 0;
      if (wgmma_reps(tile.m) > 1 || tile.n > (scales_only ? 192 : 160)) return false;
      if (tile.m == 192 && tile.n > 128) return false;
    }
    const bool b_n_major =
        (packs & kWgmmaPackB) == 0 ? !desc.b_k_major() : is_16bit(desc.b.dtype) && desc.b_n_major();
    return !b_n_major || tile.n % 64 == 0;
  }

  // Tiles that run at one time walk along the longer side: neighbours then read different rows of
  // the longer operand, and the same of the shorter. In several waves the longer is read once.
  [[nodiscard]] int group_of(const MatmulPlan& plan) const {
    return desc.problem.n > desc.problem.m && wgmma_is_one_wave(desc, machine, plan) ? 1 : 8;
  }

  void add(TileShape tile, int cluster, bool split, std::uint8_t packs,
           std::int64_t splits = 1) const {
    MatmulPlan plan;
    plan.engine = MatmulEngine::wgmma;
    plan.kernel = static_cast<std::uint8_t>(packs | (split ? kWgmmaSplit : 0));
    plan.transpose = transpose;
    plan.fused = true;
    plan.tile_m = tile.m;
    plan.tile_n = tile.n;
    plan.tile_k = wgmma_tile_k(desc.a.dtype);
    plan.cluster = cluster;
    if (splits > 1) {
      const std::int64_t steps = ceil_div(desc.problem.k, plan.tile_k);
      const std::int64_t part = ceil_div(steps, splits);
      plan.splits = ceil_div(steps, part);
      plan.k_per_split = part * plan.tile_k;
    }
    const MatmulDesc output = wgmma_output(desc, plan);
    const WgmmaStoreKind store = wgmma_store(output);
    plan.stages = kMaxStages;
    while (wgmma_shared_bytes(plan, store, output.dtype_c) > machine.shared_bytes)
      if (--plan.stages < kMinStages) return;
    plan.group = group_of(plan);
    plan.predicted_us = static_cast<float>(wgmma_us(desc, machine, plan));
    plans.push_back(plan);
  }

  // Of the plans from `first` on, which differ in split-K.
  void keep_best_from(std::size_t first) const {
    if (plans.size() <= first + 1) return;
    const auto begin = plans.begin() + static_cast<std::ptrdiff_t>(first);
    const auto best = std::min_element(begin, plans.end(), [](const auto& x, const auto& y) {
      return x.predicted_us < y.predicted_us;
    });
    *begin = *best;
    plans.resize(first + 1);
  }

  void run() const {
    const MatmulProblem& p = desc.problem;
    std::uint8_t packs = 0;
    if (!is_packed(desc.a_k_major(), desc.a_m_major(), desc.align_a, desc.a.dtype,
                   desc.a_k_major() ? p.a_m : p.a_k, p.batch_a))
      packs |= kWgmmaPackA;
    if (!is_packed(desc.b_k_major(), desc.b_n_major(), desc.align_b, desc.b.dtype,
                   desc.b_k_major() ? p.b_n : p.b_k, p.batch_b))
      packs |= kWgmmaPackB;
    const std::int64_t k_steps = ceil_div(p.k, wgmma_tile_k(desc.a.dtype));
    const auto consider = [&](TileShape tile) {
      if (!fits(tile, packs)) return;
      const std::int64_t rows = ceil_div(p.m, tile.m);
      const std::int64_t tiles = p.num_batches() * rows * ceil_div(p.n, tile.n);
      const bool shares = tile.m * tile.n >= 64 * 128 && tile.m != 192 && rows > 1;
      add(tile, 1, false, packs);
      if (shares) add(tile, 2, false, packs);
      if (desc.batch_invariant) return;  // split-K would depend on m
      for (const std::int64_t parts : {2, 4, 8})
        if (tiles * parts <= wgmma_blocks_at_once(machine, parts) && k_steps >= 2 * parts &&
            tile.n % (8 * parts) == 0)
          add(tile, static_cast<int>(parts), true, packs);
      if (!desc.c_n_major()) return;  // the finish pass would write single elements
      for (int cluster = 1; cluster <= (shares ? 2 : 1); ++cluster) {
        const std::size_t first = plans.size();
        for (const std::int64_t waves : {1, 2}) {  // as many splits as fill them
          const std::int64_t splits =
              std::min({kMaxSplits, waves * machine.sms / tiles, k_steps / 3});
          if (splits > 1) add(tile, cluster, false, packs, splits);
        }
        if (!machine.every_plan) keep_best_from(first);
      }
    };
    // What is read bounds the time of few rows: B is narrow, and A's rows are the long side.
    if (std::min(p.m, p.n) > kFew || desc.batch_invariant) {
      for (const TileShape tile : kTiles) consider(tile);
    } else if (p.n <= kFew) {
      for (const TileShape tile : kThinTiles)
        if (tile.n >= p.n) consider(tile);  // A is read once
    }
  }
};

}  // namespace

bool takes_wgmma(const MatmulDesc& d) { return takes_tensor_cores(d); }

int wgmma_tile_k(DType operand) { return 128 / static_cast<int>(itemsize(operand)); }

MatmulDesc wgmma_output(const MatmulDesc& desc, const MatmulPlan& plan) {
  if (plan.splits == 1) return desc;
  MatmulDesc sums = raw_desc(desc);
  const auto bytes = static_cast<std::int64_t>(itemsize(sums.dtype_c));
  if (sums.problem.m * sums.problem.n * bytes % 16 != 0)
    sums.align_c = std::min(sums.align_c, static_cast<std::uint8_t>(bytes));
  return sums;
}

WgmmaStoreKind wgmma_store(const MatmulDesc& desc) {
  // Columns after the last one were seen written on an H200 where a row of C ends inside of 16
  // bytes; the TMA store is suspected, and not used there.
  const auto whole = [&](std::int64_t elems) {
    return elems * static_cast<std::int64_t>(itemsize(desc.dtype_c)) % 16 == 0;
  };
  const MatmulProblem& p = desc.problem;
  if (desc.align_c < 16) return WgmmaStoreKind::kStrided;
  if (desc.c_n_major() && whole(p.n) && walks_forward(p.c_m, p.batch_c))
    return WgmmaStoreKind::kRows;
  if (desc.c_m_major() && is_16bit(desc.dtype_c) && whole(p.m) && walks_forward(p.c_n, p.batch_c))
    return WgmmaStoreKind::kColumns;
  return WgmmaStoreKind::kStrided;
}

int wgmma_chunk(const MatmulPlan& plan, WgmmaStoreKind store, DType c) {
  const bool split = (plan.kernel & kWgmmaSplit) != 0;
  const int width = split ? plan.tile_n / plan.cluster : plan.tile_n;
  return widest(width,
                store == WgmmaStoreKind::kColumns ? 64 : 128 / static_cast<int>(itemsize(c)));
}

// As GemmWgmma::kSharedBytes counts them.
std::size_t wgmma_shared_bytes(const MatmulPlan& plan, WgmmaStoreKind store, DType c) {
  const int consumers = plan.tile_m / 64 / wgmma_reps(plan.tile_m);
  const int chunk_bytes = 64 * wgmma_chunk(plan, store, c) * static_cast<int>(itemsize(c));
  const int buffer_bytes = static_cast<int>(ceil_div(std::int64_t{2} * chunk_bytes, 1024)) * 1024;
  const bool split = (plan.kernel & kWgmmaSplit) != 0;
  const int sum_bytes = split ? plan.tile_m * plan.tile_n * 4 : 0;
  const int ring_bytes = std::max(plan.stages * (plan.tile_m + plan.tile_n) * 128, sum_bytes);
  const int bytes = 1024 + ring_bytes + consumers * buffer_bytes + plan.stages * 16;
  return static_cast<std::size_t>(bytes);
}

void all_wgmma_plans(const MatmulDesc& desc, const GemmMachine& machine,
                     std::vector<MatmulPlan>& plans) {
  const MatmulProblem& p = desc.problem;
  if (machine.sm != 90 || desc.conjugate || !takes_wgmma(desc)) return;
  if (desc.a.dtype == DType::kInt8 && desc.epilogue != 0) return;
  if (p.k == 0 || p.batch_shape.size() > 1) return;
  if (std::max({p.m, p.n, p.k, p.num_batches()}) >= kMaxSize) return;
  Proposer{desc, machine, false, plans}.run();
  if (desc.batch_invariant) return;
  const MatmulDesc t = transposed(desc);
  Proposer{t, machine, true, plans}.run();
}

void propose_wgmma(const MatmulDesc& desc, const GemmMachine& machine,
                   std::vector<MatmulPlan>& plans) {
  std::vector<MatmulPlan> all;
  all_wgmma_plans(desc, machine, all);
  keep_loadable(desc, machine, all);
  std::stable_sort(all.begin(), all.end(), [](const MatmulPlan& x, const MatmulPlan& y) {
    return x.predicted_us < y.predicted_us;
  });
  if (!machine.every_plan) all.resize(std::min(all.size(), kMaxProposals));
  plans.insert(plans.end(), all.begin(), all.end());
}

}  // namespace gpk::ops::gemm
