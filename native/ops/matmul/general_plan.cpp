#include "ops/matmul/general_plan.h"

#include <algorithm>

#include "base/ceil_div.h"
#include "core/promote.h"
#include "ops/matmul/formats.h"

namespace gpk::ops::gemm {
namespace {

constexpr std::int64_t kThin = 8;  // up to this, a tile would be mostly empty
constexpr std::int64_t kTinyOutputs = 256;
constexpr std::int64_t kShortK = 8;
constexpr std::int64_t kMaxSplits = 4096;
constexpr std::int64_t kMaxTileK = std::int64_t{1} << 30;  // the tiled kernel counts k in 32 bits

constexpr double kLoadUs = 0.25;  // until a load has arrived, by random shapes on an H200

std::int64_t magnitude(std::int64_t x) { return x < 0 ? -x : x; }

void set_kernel(MatmulPlan& plan, GeneralKernel kernel) {
  plan.kernel = static_cast<std::uint8_t>(kernel);
  if (kernel != GeneralKernel::kTile64 && kernel != GeneralKernel::kTile128) return;
  plan.tile_m = kernel == GeneralKernel::kTile128 ? 128 : 64;
  plan.tile_n = 64;
  plan.tile_k = 16;
}

// Whether neighbours in k are nearer than what else a group of threads could walk along.
bool along_k(std::int64_t k_stride, std::int64_t row_stride, std::int64_t rows,
             const Dims& batch_strides) {
  if (rows > 1) return magnitude(k_stride) <= magnitude(row_stride);
  if (batch_strides.empty() || batch_strides[batch_strides.size() - 1] == 0) return true;
  return magnitude(k_stride) <= magnitude(batch_strides[batch_strides.size() - 1]);
}

// Split-K so that about `wanted` work items exist, each with at least `least` of K.
void split(MatmulPlan& plan, const MatmulDesc& desc, std::int64_t items, std::int64_t wanted,
           std::int64_t least, std::int64_t multiple) {
  const std::int64_t k = desc.problem.k;
  const std::int64_t most = std::min(kMaxSplits, std::max<std::int64_t>(1, k / least));
  const std::int64_t splits = std::clamp<std::int64_t>(wanted / items, 1, most);
  plan.k_per_split = std::max<std::int64_t>(1, ceil_div(ceil_div(k, splits), multiple)) * multiple;
  plan.splits = std::max<std::int64_t>(1, ceil_div(k, plan.k_per_split));
}

void plan_thin(MatmulPlan& plan, const MatmulDesc& desc, const GemmMachine& machine) {
  const MatmulProblem& p = desc.problem;
  const bool long_m = p.m >= p.n;
  const bool walk_k =
      long_m ? along_k(p.a_k, p.a_m, p.m, p.batch_a) : along_k(p.b_k, p.b_n, p.n, p.batch_b);
  const std::int64_t outputs = p.num_batches() * p.m * p.n;
  const std::int64_t sms = machine.sms;
  if (walk_k && p.k >= 32 && !desc.batch_invariant) {
    set_kernel(plan, GeneralKernel::kRows);
    plan.transpose = !long_m;  // warps that share a row of the long operand are neighbours
    split(plan, desc, outputs, sms * 64, 1024, 256);
  } else {
    set_kernel(plan, GeneralKernel::kDirect);
    plan.transpose = long_m && p.n <= kThin;  // neighbours walk along the long side
    // One sum in order of k, as tiles have it, whatever the number of rows.
    split(plan, desc, outputs, desc.batch_invariant ? 1 : sms * 2048, 64, 8);
  }
}

void plan_tiles(MatmulPlan& plan, const MatmulDesc& desc, const GemmMachine& machine) {
  const MatmulProblem& p = desc.problem;
  set_kernel(plan, GeneralKernel::kTile128);
  std::int64_t tiles = p.num_batches() * ceil_div(p.m, 128) * ceil_div(p.n, 64);
  if (itemsize(desc.dtype_acc) != 4 || tiles < machine.sms) {
    set_kernel(plan, GeneralKernel::kTile64);
    tiles = p.num_batches() * ceil_div(p.m, 64) * ceil_div(p.n, 64);
  }
  const std::int64_t least_parts = ceil_div(p.k, kMaxTileK);
  const std::int64_t wanted = desc.batch_invariant ? 1 : std::int64_t{machine.sms} * 2;
  split(plan, desc, tiles, std::max(wanted, tiles * least_parts), 256, 16);
}

// Multiply-adds of the accumulation type against those of float32.
double slowness(DType dtype, int sm) {
  switch (dtype) {
    case DType::kFloat64:
    case DType::kComplex128: return sm == 80 || sm == 90 || sm == 100 ? 2.0 : 64.0;
    case DType::kInt32:
    case DType::kUInt32: return 2.0;
    case DType::kInt64:
    case DType::kUInt64: return 8.0;
    default: return 1.0;
  }
}

// Loads that a thread of the kernels without tiles waits for, one after the other: eight of each
// operand are in flight, and single ones where less than eight are left.
double waits(const MatmulPlan& plan, std::int64_t k) {
  const std::int64_t lanes =
      plan.kernel == static_cast<std::uint8_t>(GeneralKernel::kRows) ? 32 : 1;
  const std::int64_t part = std::min(plan.k_per_split, k);
  return static_cast<double>(part / (8 * lanes) + ceil_div(part % (8 * lanes), lanes));
}

// Shares of the peak as measured on an H200 (docs/benchmarks): tiles reach 0.4 where all
// multiprocessors have two of them.
double predict(const MatmulPlan& plan, const MatmulDesc& desc, const GemmMachine& machine) {
  const MatmulProblem& p = desc.problem;
  const auto count = static_cast<double>(p.num_batches() * plan.splits);
  const auto m = static_cast<double>(p.m), n = static_cast<double>(p.n);
  const auto k = static_cast<double>(p.k);
  const auto bytes = static_cast<double>(itemsize(desc.a.dtype));
  const double rate = simt_flops_per_us(machine) / slowness(desc.dtype_acc, machine.sm);
  double compute = 0.0, traffic = 0.0;
  if (plan.tile_m != 0) {
    const double tiles =
        count * static_cast<double>(ceil_div(p.m, plan.tile_m) * ceil_div(p.n, plan.tile_n));
    const double waves = std::max(1.0, tiles / (2.0 * machine.sms));
    const double tile_flops = 2.0 * plan.tile_m * plan.tile_n * k /
                              static_cast<double>(plan.splits) *
                              (is_complex(desc.a.dtype) ? 4.0 : 1.0);
    compute = waves * 2.0 * tile_flops / (0.4 * rate / machine.sms);
    traffic = tiles * (plan.tile_m + plan.tile_n) * k / static_cast<double>(plan.splits) * bytes /
              l2_bytes_per_us(machine);
  } else {
    const bool rows = plan.kernel == static_cast<std::uint8_t>(GeneralKernel::kRows);
    // 16-bit operands are converted one by one.
    const double share = bytes == 2.0 ? (rows ? 0.05 : 0.065) : (rows ? 0.2 : 0.1);
    compute = flops(desc) / (share * rate) + kLoadUs * waits(plan, p.k);
    traffic = static_cast<double>(p.num_batches()) * m * n * k * bytes / l2_bytes_per_us(machine);
  }
  traffic = std::max(traffic, 1.5 * operands_us(desc, machine));
  double us = kLaunchUs + std::max(compute, traffic);
  if (needs_finish(desc, plan)) us += finish_us(desc, machine, plan.splits);
  return us;
}

}  // namespace

bool needs_finish(const MatmulDesc& desc, const MatmulPlan& plan) {
  return plan.splits > 1 || desc.epilogue != 0 || desc.dtype_c != desc.a.dtype;
}

MatmulPlan plan_general(const MatmulDesc& desc, const GemmMachine& machine) {
  const MatmulProblem& p = desc.problem;
  MatmulPlan plan;
  plan.engine = MatmulEngine::general;
  plan.fused = true;
  if (std::min(p.m, p.n) <= kThin || p.k <= kShortK || p.m * p.n <= kTinyOutputs) {
    plan_thin(plan, desc, machine);
  } else {
    plan_tiles(plan, desc, machine);
  }
  plan.predicted_us = static_cast<float>(predict(plan, desc, machine));
  return plan;
}

bool takes_general(const MatmulDesc& d) {
  const bool fp8 = plan::is_fp8(d.a.dtype);
  if (!is_dense(d) || !takes_result(d) || (is_storage_only(d.a.dtype) && !fp8)) return false;
  return fp8 ? plan::is_fp8(d.b.dtype) : d.a.dtype == d.b.dtype;
}

void propose_general(const MatmulDesc& desc, const GemmMachine& machine,
                     std::vector<MatmulPlan>& plans) {
  if (takes_general(desc)) plans.push_back(plan_general(desc, machine));
}

}  // namespace gpk::ops::gemm
