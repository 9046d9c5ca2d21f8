#include "ops/matmul/wgmma_cost.h"

#include <algorithm>
#include <cmath>

#include "base/ceil_div.h"
#include "ops/matmul/wgmma_plan.h"

namespace gpk::ops::gemm {
namespace {

// Fitted to 3667 times of 125 GEMMs on H200s, element-wise stores and copies to 200 random ones
// (docs/matmul.md); rates are per multiprocessor.
// scripts/fit_plans.py has the same model, and prints constants fitted to a sweep.
constexpr double kL2BytesPerUs = 120e3;  // its share of what the L2 gives to all
constexpr double kIntakeBytesPerUs = 133e3;
constexpr double kStartUs = 1.8;           // first copies, launch included
constexpr double kStoreUs = 1.65;          // of a tile of 128 x 256
constexpr double kChunkUs = 0.06;          // of a store of fewer than 32 columns, beyond that
constexpr double kReduceUs = 0.8;          // split-K over two blocks, 128 x 64
constexpr double kClusterUs = 1.0;         // cluster barriers, ending together
constexpr double kClusterStepUs = 0.0035;  // waiting for one another in each step
constexpr double kDramShare = 0.964;
constexpr double kStreamBytesPerUs = 49e3;  // what one block reads of what is not in the L2
constexpr double kRereadShare = 0.16;       // what reading the longer operand again costs the DRAM
constexpr std::int64_t kMaxRereads = 2;
constexpr double kLooseLines = 1.25;  // rows that start at sectors of 32 bytes, but not at lines
constexpr double kLooseRows = 1.5;    // rows that do not even start at sectors
constexpr double kPartsNorm = 4.0;  // of the parts of a step: the longest hides most of the others
constexpr double kWaveNorm = 4.0;   // of the steps of a wave and its share of the DRAM
constexpr double kStridedStoreUs = 9.8;        // of a tile of 128 x 256, element by element
constexpr double kPackUs = 2.6;                // launches a copy that the GEMM waits for
constexpr double kPackAccessesPerUs = 0.63e6;  // as wide as the operand's alignment allows
constexpr double kTransposeBytesPerUs = 1.5e6;
constexpr double kShortSide = 1.001;  // C has fewer rows than columns: C^T where equal

// Of machine.h's rate. Narrow tiles read A too often from shared memory.
double tensor_share(int tile_n) {
  if (tile_n >= 256) return 0.99;
  if (tile_n == 160) return 0.96;
  if (tile_n > 160) return 0.975;
  return tile_n >= 96 ? 0.985 : 0.61;
}

double norm(double power, double x, double y, double z = 0.0) {
  return std::pow(std::pow(x, power) + std::pow(y, power) + std::pow(z, power), 1.0 / power);
}

struct Cost {
  const MatmulDesc& desc;
  const GemmMachine& machine;
  const MatmulPlan& plan;

  [[nodiscard]] bool splits_cluster() const { return (plan.kernel & kWgmmaSplit) != 0; }
  [[nodiscard]] bool packs(std::uint8_t which) const { return (plan.kernel & which) != 0; }
  [[nodiscard]] std::int64_t share() const { return splits_cluster() ? 1 : plan.cluster; }
  [[nodiscard]] double area() const { return static_cast<double>(plan.tile_m) * plan.tile_n; }
  [[nodiscard]] double batches() const { return static_cast<double>(desc.problem.num_batches()); }

  // Clusters at work at one time, and how many there are to do.
  [[nodiscard]] std::int64_t at_once() const {
    return std::max<std::int64_t>(1, wgmma_blocks_at_once(machine, plan.cluster) / plan.cluster);
  }
  [[nodiscard]] std::int64_t num_units() const {
    const MatmulProblem& p = desc.problem;
    return p.num_batches() * plan.splits * ceil_div(ceil_div(p.m, plan.tile_m), share()) *
           ceil_div(p.n, plan.tile_n);
  }

  [[nodiscard]] double us() const {
    const MatmulProblem& p = desc.problem;
    const std::int64_t full_waves = num_units() / at_once();
    const std::int64_t rest = num_units() % at_once();
    double us = kStartUs;
    if (full_waves > 0) us += static_cast<double>(full_waves) * wave_us(at_once());
    if (rest > 0) us += wave_us(rest);
    if (plan.cluster > 1) us += kClusterUs;
    if (splits_cluster()) us += kReduceUs * area() / (128.0 * 64.0) * std::log2(plan.cluster);
    if (plan.splits > 1) us += finish_us(desc, machine, plan.splits);
    if (packs(kWgmmaPackA)) us += pack_us(p.m, desc.a.dtype, desc.align_a, desc.a_k_major());
    if (packs(kWgmmaPackB)) us += pack_us(p.n, desc.b.dtype, desc.align_b, desc.b_k_major());
    return p.m < p.n ? us * kShortSide : us;
  }

  // So many clusters compute a tile each, or the tiles that share B by multicast.
  [[nodiscard]] double wave_us(std::int64_t clusters) const {
    const std::int64_t k_steps = ceil_div(desc.problem.k, plan.tile_k);
    const auto steps =
        static_cast<double>(ceil_div(k_steps, splits_cluster() ? plan.cluster : plan.splits));
    const auto blocks = static_cast<double>(clusters * plan.cluster);
    const double stream =
        std::min(kDramShare * dram_bytes_per_us(machine), blocks * kStreamBytesPerUs);
    const double bytes =
        memory_bytes() * static_cast<double>(clusters) / static_cast<double>(num_units());
    return norm(kWaveNorm, steps * step_us(blocks) + store_us(), bytes / stream);
  }

  // Of one block. TMA stores whole tiles; single elements are only stored where C has them.
  [[nodiscard]] double store_us() const {
    constexpr double kTile = 128.0 * 256.0;
    const MatmulDesc output = wgmma_output(desc, plan);
    const WgmmaStoreKind store = wgmma_store(output);
    const double blocks_per_tile = splits_cluster() ? plan.cluster : 1.0;
    if (store == WgmmaStoreKind::kStrided) {
      const MatmulProblem& p = desc.problem;
      const auto elems = static_cast<double>(std::min<std::int64_t>(p.m, plan.tile_m) *
                                             std::min<std::int64_t>(p.n, plan.tile_n));
      return kStridedStoreUs * elems / kTile / blocks_per_tile;
    }
    const double width = plan.tile_n / blocks_per_tile;
    const double narrow = width / wgmma_chunk(plan, store, output.dtype_c) - width / 32.0;
    return kStoreUs * area() / kTile * (plan.splits > 1 ? 2.0 : 1.0) +
           kChunkUs * std::max(0.0, narrow);
  }

  [[nodiscard]] double step_us(double blocks) const {
    const MatmulProblem& p = desc.problem;
    const auto sms = static_cast<double>(machine.sms);
    const double flops_per_us =
        tensor_share(plan.tile_n) * tensor_flops_per_us(machine, desc.a.dtype) / sms;
    const double a =
        plan.tile_m * row_bytes(desc.a_k_major() ? p.a_m : p.a_k, desc.a.dtype, packs(kWgmmaPackA));
    const double b =
        plan.tile_n * row_bytes(desc.b_k_major() ? p.b_n : p.b_k, desc.b.dtype, packs(kWgmmaPackB));
    const double from_l2 = (a + b / static_cast<double>(share())) * blocks;
    return (share() > 1 ? kClusterStepUs : 0.0) +
           norm(kPartsNorm, 2.0 * area() * plan.tile_k / flops_per_us,
                from_l2 / (kL2BytesPerUs * sms), (a + b) / kIntakeBytesPerUs);
  }

  // What 128 bytes of k of one row cost on their way.
  [[nodiscard]] static double row_bytes(std::int64_t pitch, DType dtype, bool packed) {
    const std::int64_t bytes = pitch * static_cast<std::int64_t>(itemsize(dtype));
    if (packed || bytes % 128 == 0) return 128.0;
    return 128.0 * (bytes % 32 == 0 ? kLooseLines : kLooseRows);
  }

  [[nodiscard]] double bytes_of(std::int64_t rows, DType dtype) const {
    return static_cast<double>(rows) * static_cast<double>(desc.problem.k) * batches() *
           static_cast<double>(itemsize(dtype));
  }
  [[nodiscard]] double results() const {
    return static_cast<double>(desc.problem.m) * static_cast<double>(desc.problem.n) * batches();
  }

  [[nodiscard]] double memory_bytes() const {
    const MatmulProblem& p = desc.problem;
    const bool a_longer = p.m > p.n;
    const std::int64_t reads =
        a_longer ? ceil_div(p.n, plan.tile_n) : ceil_div(p.m, plan.tile_m * share());
    const double longer = a_longer ? bytes_of(p.m, desc.a.dtype) : bytes_of(p.n, desc.b.dtype);
    const double rereads = kRereadShare * static_cast<double>(std::min(reads - 1, kMaxRereads));
    const double sums = plan.splits > 1 ? 4.0 * results() * static_cast<double>(plan.splits) : 0.0;
    return bytes_once(desc) + sums + rereads * longer;
  }

  // Reading and writing: by the accesses that the alignment allows, at most at the DRAM's rate.
  [[nodiscard]] double pack_us(std::int64_t rows, DType dtype, unsigned align, bool k_major) const {
    const bool transposes = itemsize(dtype) != 2 && !k_major;
    const double rate = transposes
                            ? kTransposeBytesPerUs
                            : std::min(kPackAccessesPerUs * align, dram_bytes_per_us(machine));
    return kPackUs + 2.0 * bytes_of(rows, dtype) / rate;
  }
};

}  // namespace

double wgmma_us(const MatmulDesc& desc, const GemmMachine& machine, const MatmulPlan& plan) {
  return Cost{desc, machine, plan}.us();
}

std::int64_t wgmma_blocks_at_once(const GemmMachine& machine, std::int64_t size) {
  return size <= 2 ? machine.sms : machine.sms * (size == 4 ? 80 : 70) / 100;
}

bool wgmma_is_one_wave(const MatmulDesc& desc, const GemmMachine& machine, const MatmulPlan& plan) {
  const Cost cost{desc, machine, plan};
  return cost.num_units() <= cost.at_once();
}

}  // namespace gpk::ops::gemm
