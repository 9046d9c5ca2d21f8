#include "ops/matmul/plan.h"

#include <algorithm>

#include "core/text.h"

namespace gpk::ops {
namespace {

constexpr std::int64_t kThin = 8;  // up to this, a tile would be mostly empty
constexpr std::int64_t kTinyOutputs = 256;
constexpr std::int64_t kShortK = 8;
constexpr std::int64_t kMaxSplits = 4096;
constexpr std::int64_t kMaxTileK = std::int64_t{1} << 30;  // the tiled kernel counts k in 32 bits

std::int64_t ceil_div(std::int64_t x, std::int64_t y) { return (x + y - 1) / y; }
std::int64_t magnitude(std::int64_t x) { return x < 0 ? -x : x; }

// Whether neighbours in k are nearer than what else a group of threads could walk along.
bool along_k(std::int64_t k_stride, std::int64_t row_stride, std::int64_t rows,
             const Dims& batch_strides) {
  if (rows > 1) return magnitude(k_stride) <= magnitude(row_stride);
  if (batch_strides.empty() || batch_strides[batch_strides.size() - 1] == 0) return true;
  return magnitude(k_stride) <= magnitude(batch_strides[batch_strides.size() - 1]);
}

// Parts of K so that about `wanted` work items exist, each with at least `least` of K.
void split(MatmulPlan& plan, std::int64_t k, std::int64_t items, std::int64_t wanted,
           std::int64_t least, std::int64_t multiple) {
  const std::int64_t most = std::min(kMaxSplits, std::max<std::int64_t>(1, k / least));
  const std::int64_t splits = std::clamp<std::int64_t>(wanted / items, 1, most);
  plan.k_per_split = std::max<std::int64_t>(1, ceil_div(ceil_div(k, splits), multiple)) * multiple;
  plan.splits = std::max<std::int64_t>(1, ceil_div(k, plan.k_per_split));
}

MatmulPlan plan_thin(const MatmulProblem& p, int num_sms) {
  MatmulPlan plan;
  const bool long_m = p.m >= p.n;
  const bool walk_k =
      long_m ? along_k(p.a_k, p.a_m, p.m, p.batch_a) : along_k(p.b_k, p.b_n, p.n, p.batch_b);
  const std::int64_t outputs = p.num_batches() * p.m * p.n;
  if (walk_k && p.k >= 32) {
    plan.kind = MatmulKind::kRows;
    plan.transpose = !long_m;  // warps that share a row of the long operand are neighbours
    split(plan, p.k, outputs, std::int64_t{num_sms} * 64, 1024, 256);
  } else {
    plan.kind = MatmulKind::kDirect;
    plan.transpose = long_m && p.n <= kThin;  // neighbours walk along the long side
    split(plan, p.k, outputs, std::int64_t{num_sms} * 2048, 64, 8);
  }
  return plan;
}

}  // namespace

MatmulPlan plan_matmul(const MatmulProblem& p, std::size_t accumulator_bytes, int num_sms) {
  if (std::min(p.m, p.n) <= kThin || p.k <= kShortK || p.m * p.n <= kTinyOutputs)
    return plan_thin(p, num_sms);
  MatmulPlan plan;
  plan.kind = MatmulKind::kTile128;
  std::int64_t tiles = p.num_batches() * ceil_div(p.m, 128) * ceil_div(p.n, 64);
  if (accumulator_bytes != 4 || tiles < num_sms) {
    plan.kind = MatmulKind::kTile64;
    tiles = p.num_batches() * ceil_div(p.m, 64) * ceil_div(p.n, 64);
  }
  split(plan, p.k, tiles, std::max(std::int64_t{num_sms} * 2, tiles * ceil_div(p.k, kMaxTileK)),
        256, 16);
  return plan;
}

std::string to_string(const MatmulPlan& plan) {
  static constexpr const char* kNames[] = {"direct", "rows", "tile64", "tile128"};
  return cat("matmul(", kNames[static_cast<int>(plan.kind)], ", transpose=", plan.transpose,
             ", splits=", plan.splits, ", k_per_split=", plan.k_per_split, ")");
}

}  // namespace gpk::ops
