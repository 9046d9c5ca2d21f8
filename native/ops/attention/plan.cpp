#include "ops/attention/plan.h"

#include <algorithm>

#include "base/ceil_div.h"
#include "base/text.h"

namespace gpk::ops::attention {
namespace {

constexpr int kDecodeRows = 16;
constexpr int kDecodeWarps = 4;
constexpr int kMaxDecodeRows = 64;
constexpr int kTileM = 64;
constexpr std::size_t kStaticBytes = 1024;  // room for what kernels declare themselves
constexpr std::int64_t kMaxGridY = 65535;
constexpr std::int64_t kMaxUnits = std::int64_t{1} << 30;  // the prefill kernel counts in 32 bits

bool is_half(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

// The smallest of `sizes` that holds x; 0: none.
template <std::size_t kCount>
int smallest(const int (&sizes)[kCount], std::int64_t x) {
  const auto* found =
      std::find_if(std::begin(sizes), std::end(sizes), [&](int size) { return x <= size; });
  return found == std::end(sizes) ? 0 : *found;
}

// Packed queries of pages are chunks of prompts: their bits may not depend on the chunk, so that
// few queries use this kernel too.
bool takes_prefill(const AttentionDesc& d, const plan::Machine& machine) {
  return machine.sm == 90 && machine.jit && is_half(d.dtype) && d.kv_dtype == d.dtype &&
         d.dim == d.value_dim && (d.dim == 64 || d.dim == 128 || (d.dim == 256 && !d.softcap)) &&
         !d.masked && d.aligned && d.forward && (d.q_len > kDecodeRows || (d.packed && d.paged)) &&
         d.batch * d.heads * ceil_div(d.q_len, 2 * kTileM) <= kMaxUnits;
}

bool takes_decode(const AttentionDesc& d, const plan::Machine& machine) {
  const bool narrow = d.kv_dtype == DType::kFloat8E4M3FN && machine.sm >= 89 && d.dim < 256;
  return is_half(d.dtype) && (d.kv_dtype == d.dtype || narrow) && d.dim == d.value_dim &&
         (d.dim == 64 || d.dim == 128 || (d.dim % 32 == 0 && d.dim <= 256 && machine.jit)) &&
         (machine.jit || (!d.softcap && !narrow)) && !d.masked && !d.packed && d.aligned &&
         d.heads / d.kv_heads * d.q_len <= kMaxDecodeRows &&
         d.kv_heads * decode_row_tiles(d) <= kMaxGridY;
}

bool takes_tile(const AttentionDesc& d, const plan::Machine& machine) {
  return is_half(d.dtype) && d.kv_dtype == d.dtype && d.dim % 8 == 0 && d.value_dim % 8 == 0 &&
         d.aligned && (machine.jit || std::max(d.dim, d.value_dim) <= 128);
}

// Query rows times keys that tiles of m x n compute, in one head.
double area(const AttentionDesc& d, int m, int n) {
  if (!d.causal) return static_cast<double>(ceil_div(d.q_len, m) * m * ceil_div(d.kv_len, n) * n);
  double sum = 0.0;
  for (std::int64_t row = 0; row < d.q_len; row += m) {
    const std::int64_t keys = std::min(d.kv_len, row + m + d.kv_len - d.q_len);
    sum += static_cast<double>(m * ceil_div(std::max<std::int64_t>(keys, 0), n) * n);
  }
  return sum;
}

// Three consumers hide more of the softmax, by 1.25x at a head dimension of 64 on an H200, but
// their tiles of 192 rows compute more than is needed of short sequences.
AttentionPlan plan_prefill(const AttentionDesc& d) {
  if (d.dim == 256) return {Engine::kPrefill, 256, 48, 2, 2};
  if (d.dim == 128) return {Engine::kPrefill, 128, 128, 2, 2};
  constexpr double kGain = 1.25;
  const bool three = !d.softcap && area(d, 192, 128) < kGain * area(d, 128, 128);
  return three ? AttentionPlan{Engine::kPrefill, 64, 128, 3, 2}
               : AttentionPlan{Engine::kPrefill, 64, 128, 2, 3};
}

// The size of a split decides the order of sums, so that it may not depend on the batch. How many
// splits a block has does not change results: enough blocks for two rounds of all multiprocessors.
AttentionPlan plan_decode(const AttentionDesc& d, const plan::Machine& machine) {
  AttentionPlan plan{Engine::kDecode, static_cast<int>(d.dim), 16, 2, 2};
  plan.split_log2 = d.kv_len <= 4096 ? 8 : 9;
  const std::int64_t tiles = d.batch * d.kv_heads * decode_row_tiles(d);
  const std::int64_t splits = ceil_div(d.kv_len, std::int64_t{1} << plan.split_log2);
  while (plan.splits_log2 < 1 &&
         tiles * (splits >> (plan.splits_log2 + 1)) >= std::int64_t{4} * machine.sms)
    ++plan.splits_log2;
  return plan;
}

}  // namespace

std::int64_t decode_row_tiles(const AttentionDesc& desc) {
  return ceil_div(desc.heads / desc.kv_heads * desc.q_len, kDecodeRows);
}

int first_key_multiple(const AttentionPlan& plan) {
  return plan.engine == Engine::kDecode ? 1 << plan.split_log2 : plan.tile_n;
}

std::int64_t prefill_section(const AttentionDesc& desc, const plan::Machine& machine) {
  const auto bytes = desc.kv_len * (desc.dim + desc.value_dim) * 2;
  const auto room = static_cast<std::int64_t>(machine.l2_bytes) / 2;  // each half has its own copy
  const std::int64_t kv_heads = std::max<std::int64_t>(1, room / std::max<std::int64_t>(1, bytes));
  return std::min(desc.batch * desc.heads, kv_heads * (desc.heads / desc.kv_heads));
}

AttentionPlan plan_attention(const AttentionDesc& desc, const plan::Machine& machine) {
  constexpr int kDims[] = {32, 64, 96, 128, 192, 256};
  if (takes_decode(desc, machine)) {
    const AttentionPlan plan = plan_decode(desc, machine);
    if (shared_bytes(desc, plan) + kStaticBytes <= machine.shared_bytes) return plan;
  }
  if (takes_prefill(desc, machine)) return plan_prefill(desc);
  const std::int64_t widest = std::max(desc.dim, desc.value_dim);
  if (takes_tile(desc, machine)) {
    const int dim = machine.jit ? smallest(kDims, widest) : widest <= 64 ? 64 : 128;
    return {Engine::kTile, dim, dim > 128 ? 32 : 64};
  }
  constexpr int kSimtDims[] = {64, 128, 256};
  return {Engine::kSimt, machine.jit ? smallest(kSimtDims, widest) : 256, 32};
}

std::string to_string(const AttentionPlan& plan) {
  switch (plan.engine) {
    case Engine::kPrefill:
      return cat("prefill(dim=", plan.dim, ", tile=", 64 * plan.consumers, "x", plan.tile_n,
                 ", stages=", plan.stages, ")");
    case Engine::kDecode:
      return cat("decode(dim=", plan.dim, ", split=", 1 << plan.split_log2,
                 ", splits=", 1 << plan.splits_log2, ")");
    case Engine::kTile: return cat("tile(dim=", plan.dim, ", tile=64x", plan.tile_n, ")");
    case Engine::kSimt: return cat("simt(dim=", plan.dim, ")");
  }
  return "";
}

std::size_t shared_bytes(const AttentionDesc& desc, const AttentionPlan& plan) {
  const auto dim = static_cast<std::size_t>(plan.dim);
  const auto tile_n = static_cast<std::size_t>(plan.tile_n);
  const auto stages = static_cast<std::size_t>(plan.stages);
  switch (plan.engine) {
    case Engine::kPrefill: {
      const std::size_t buffers = dim > 128 ? 1 : 2;  // of queries
      const std::size_t rows = 64 * static_cast<std::size_t>(plan.consumers);
      return 1024 + buffers * rows * dim * 2 + 2 * stages * tile_n * dim * 2 +
             8 * (2 * buffers + 4 * stages);
    }
    case Engine::kDecode: {
      const std::size_t row = dim * itemsize(desc.kv_dtype) + 16;
      const auto rows = static_cast<std::size_t>(
          std::min<std::int64_t>(kDecodeRows, desc.heads / desc.kv_heads * desc.q_len));
      return kDecodeWarps * (stages * 16 * 2 * row + rows * (dim + 4) * 4);
    }
    case Engine::kTile: return (kTileM + 2 * tile_n) * (dim * 2 + 16);
    case Engine::kSimt: return (16 * dim + 32 * (dim + 1) + 32 * dim) * 4;
  }
  return 0;
}

}  // namespace gpk::ops::attention
