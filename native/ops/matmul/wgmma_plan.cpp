#include "ops/matmul/wgmma_plan.h"

#include <algorithm>
#include <cmath>

namespace gpk::ops {
namespace {

struct TileShape {
  int m, n;
};

// Large first: where two take the same time, the larger one reads less.
constexpr TileShape kTiles[] = {{256, 128}, {128, 256}, {192, 128}, {128, 192}, {128, 128},
                                {64, 256},  {128, 64},  {64, 128},  {64, 64}};
// Of few columns: what is read of A bounds the time, so B's width costs nothing.
constexpr TileShape kThinTiles[] = {{128, 8}, {128, 16}, {128, 32}, {128, 64},
                                    {64, 8},  {64, 16},  {64, 32},  {64, 64}};
constexpr std::int64_t kFew = 64;

// Measured on an H200 (docs/matmul.md): what one multiprocessor multiplies, and takes from the L2.
constexpr double kTensorShare = 0.90;  // of machine.h's rate, in tiles of 128 x 256
constexpr double kSmallTileShare = 0.85;
constexpr double kL2BytesPerUs = 78e3;  // per multiprocessor
constexpr double kStartUs = 1.5;        // first copies, launch included
constexpr double kStoreUs = 1.6;        // of a tile of 128 x 256
constexpr double kPartsUs = 1.0;        // adding up two parts of 128 x 64
constexpr double kClusterUs = 0.8;      // meeting, adding up
constexpr double kDramShare = 0.95;
constexpr double kStreamBytesPerUs = 46e3;  // what one block reads of what is not in the L2
constexpr double kPackBytesPerUs = 3e6;
constexpr double kShareFromBytes = 512e6;  // operands this large profit from being fetched together

constexpr std::int64_t kMaxSize = std::int64_t{1} << 31;  // of coordinates
constexpr std::size_t kMaxProposals = 6;                  // what a measurement would try

std::int64_t ceil_div(std::int64_t x, std::int64_t y) { return (x + y - 1) / y; }

bool is_16bit(DType dtype) { return itemsize(dtype) == 2; }

bool is_packed(bool along_k, bool across_k, unsigned align, DType dtype) {
  return align >= 16 && (along_k || (across_k && is_16bit(dtype)));
}

double pack_us(std::int64_t rows, std::int64_t k, double batches, DType dtype) {
  return kLaunchUs + 2.0 * static_cast<double>(rows) * static_cast<double>(k) * batches *
                         static_cast<double>(itemsize(dtype)) / kPackBytesPerUs;
}

int widest(int width, int most) { return width % most == 0 ? most : widest(width, most / 2); }

struct Proposer {
  const MatmulDesc& desc;  // of what is made
  const Machine& machine;
  bool transpose;
  std::vector<MatmulPlan>& plans;

  [[nodiscard]] double batches() const { return static_cast<double>(desc.problem.num_batches()); }

  // Blocks in clusters of `size` that run at one time: clusters stay inside a part of the chip.
  [[nodiscard]] std::int64_t most_at_once(std::int64_t size) const {
    return size <= 2 ? machine.sms : machine.sms * (size == 4 ? 80 : 70) / 100;
  }

  // Operands that lie across k come in panels of 64.
  [[nodiscard]] bool fits(TileShape tile, std::uint8_t packs) const {
    const bool b_across =
        (packs & kWgmmaPackB) == 0 ? !desc.b_k_major() : is_16bit(desc.dtype_b) && desc.b_n_major();
    return !b_across || tile.n % 64 == 0;
  }

  void add(TileShape tile, int cluster, bool split, std::uint8_t packs) const {
    MatmulPlan plan;
    plan.engine = MatmulEngine::wgmma;
    plan.kernel = static_cast<std::uint8_t>(packs | (split ? kWgmmaSplit : 0));
    plan.transpose = transpose;
    plan.fused = true;
    plan.tile_m = tile.m;
    plan.tile_n = tile.n;
    plan.tile_k = wgmma_tile_k(desc.dtype_a);
    plan.cluster = cluster;
    plan.group = 8;
    const WgmmaStoreKind store = wgmma_store(desc);
    plan.stages = 1;
    const std::size_t one = wgmma_shared_bytes(plan, store, desc.dtype_c);
    plan.stages = 2;
    const std::size_t each = wgmma_shared_bytes(plan, store, desc.dtype_c) - one;
    if (one + each > machine.shared_bytes) return;
    plan.stages =
        static_cast<int>(std::min<std::size_t>(12, 1 + (machine.shared_bytes - one) / each));
    if (plan.stages < 3) return;
    plan.predicted_us = static_cast<float>(predict(plan));
    plans.push_back(plan);
  }

  [[nodiscard]] double predict(const MatmulPlan& plan) const {
    const MatmulProblem& p = desc.problem;
    const bool split = (plan.kernel & kWgmmaSplit) != 0;
    const std::int64_t share = split ? 1 : plan.cluster;
    const std::int64_t k_steps = ceil_div(p.k, plan.tile_k);
    const std::int64_t units =
        p.num_batches() * ceil_div(ceil_div(p.m, plan.tile_m), share) * ceil_div(p.n, plan.tile_n);
    const std::int64_t at_once = std::max<std::int64_t>(1, machine.sms / plan.cluster);
    const auto waves = static_cast<double>(ceil_div(units, at_once));
    const auto steps = static_cast<double>(split ? ceil_div(k_steps, plan.cluster) : k_steps);
    const double area = static_cast<double>(plan.tile_m) * static_cast<double>(plan.tile_n);
    const double share_of_rate = area >= 128.0 * 256.0 ? kTensorShare : kSmallTileShare;
    const double flops_per_us = share_of_rate * tensor_flops_per_us(machine, desc.dtype_a) /
                                static_cast<double>(machine.sms);
    const double step_us = std::max(2.0 * area * plan.tile_k / flops_per_us,
                                    128.0 * (plan.tile_m + plan.tile_n) / kL2BytesPerUs);
    const double tile_us = steps * step_us + kStoreUs * area / (128.0 * 256.0);
    const auto blocks = static_cast<double>(std::min(units, at_once) * plan.cluster);
    const double stream =
        std::min(kDramShare * dram_bytes_per_us(machine), blocks * kStreamBytesPerUs);
    double us = kStartUs + std::max(waves * tile_us, bytes_once(desc) / stream);
    if (plan.cluster > 1) us += kClusterUs;
    if (split) us += kPartsUs * area / (128.0 * 64.0) * std::log2(plan.cluster);
    const double operands = bytes_of(p.m, desc.dtype_a) + bytes_of(p.n, desc.dtype_b);
    if (operands > kShareFromBytes && share == 1) us *= 1.05;
    if ((plan.kernel & kWgmmaPackA) != 0) us += pack_us(p.m, p.k, batches(), desc.dtype_a);
    if ((plan.kernel & kWgmmaPackB) != 0) us += pack_us(p.n, p.k, batches(), desc.dtype_b);
    if (wgmma_store(desc) == WgmmaStoreKind::kStrided) us *= 1.03;
    return us;
  }

  [[nodiscard]] double bytes_of(std::int64_t rows, DType dtype) const {
    return static_cast<double>(rows) * static_cast<double>(desc.problem.k) * batches() *
           static_cast<double>(itemsize(dtype));
  }

  void run() const {
    const MatmulProblem& p = desc.problem;
    std::uint8_t packs = 0;
    if (!is_packed(desc.a_k_major(), desc.a_m_major(), desc.align_a, desc.dtype_a))
      packs |= kWgmmaPackA;
    if (!is_packed(desc.b_k_major(), desc.b_n_major(), desc.align_b, desc.dtype_b))
      packs |= kWgmmaPackB;
    const std::int64_t k_steps = ceil_div(p.k, wgmma_tile_k(desc.dtype_a));
    const auto consider = [&](TileShape tile) {
      if (!fits(tile, packs)) return;
      const std::int64_t tiles = p.num_batches() * ceil_div(p.m, tile.m) * ceil_div(p.n, tile.n);
      add(tile, 1, false, packs);
      if (tile.m * tile.n >= 128 * 256 && ceil_div(p.m, tile.m) > 1 && tiles >= machine.sms)
        add(tile, 2, false, packs);
      if (desc.batch_invariant) return;  // a part of k of its own would change with m
      for (const std::int64_t parts : {2, 4, 8})
        if (tiles * parts <= most_at_once(parts) && k_steps >= 2 * parts &&
            tile.n % (8 * parts) == 0)
          add(tile, static_cast<int>(parts), true, packs);
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

bool wgmma_has(DType a, DType b, DType c, bool tf32) {
  const auto is_fp8 = [](DType x) { return x == DType::kFloat8E4M3FN || x == DType::kFloat8E5M2; };
  if (is_fp8(a) && is_fp8(b))
    return c == DType::kBFloat16 || c == DType::kFloat16 || c == DType::kFloat32;
  if (a != b) return false;
  if (is_16bit(a) && (a == DType::kBFloat16 || a == DType::kFloat16))
    return c == a || c == DType::kFloat32;
  if (a == DType::kFloat32) return tf32 && c == DType::kFloat32;
  return a == DType::kInt8 && c == DType::kInt32;
}

int wgmma_tile_k(DType operand) { return 128 / static_cast<int>(itemsize(operand)); }

WgmmaStoreKind wgmma_store(const MatmulDesc& desc) {
  if (desc.align_c >= 16 && desc.c_n_major()) return WgmmaStoreKind::kRows;
  if (desc.align_c >= 16 && desc.c_m_major() && is_16bit(desc.dtype_c))
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
  const int buffer_bytes = (2 * chunk_bytes + 1023) / 1024 * 1024;
  const bool split = (plan.kernel & kWgmmaSplit) != 0;
  const int sum_bytes = split ? plan.tile_m * plan.tile_n * 4 : 0;
  const int stage_bytes = (plan.tile_m + plan.tile_n) * 128;
  const int bytes = 1024 + plan.stages * stage_bytes + consumers * buffer_bytes + sum_bytes +
                    16 * plan.stages + 16;
  return static_cast<std::size_t>(bytes);
}

void all_wgmma_plans(const MatmulDesc& desc, const Machine& machine,
                     std::vector<MatmulPlan>& plans) {
  const MatmulProblem& p = desc.problem;
  if (machine.sm != 90 || !machine.jit || desc.conjugate) return;
  if (!wgmma_has(desc.dtype_a, desc.dtype_b, desc.dtype_c, desc.tf32)) return;
  if (desc.dtype_a == DType::kInt8 && desc.epilogue != 0) return;
  if (p.k == 0 || p.batch_shape.size() > 1) return;
  if (std::max({p.m, p.n, p.k, p.num_batches()}) >= kMaxSize) return;
  Proposer{desc, machine, false, plans}.run();
  if (desc.batch_invariant) return;
  const MatmulDesc turned = transposed(desc);
  Proposer{turned, machine, true, plans}.run();
}

void propose_wgmma(const MatmulDesc& desc, const Machine& machine, std::vector<MatmulPlan>& plans) {
  std::vector<MatmulPlan> all;
  all_wgmma_plans(desc, machine, all);
  std::stable_sort(all.begin(), all.end(), [](const MatmulPlan& x, const MatmulPlan& y) {
    return x.predicted_us < y.predicted_us;
  });
  all.resize(std::min(all.size(), kMaxProposals));
  plans.insert(plans.end(), all.begin(), all.end());
}

}  // namespace gpk::ops
